//! What many runners cost a cluster: constants measured on servers of its own, and the plan that follows from them.
//!
//! `cargo run --release -p duebox-queue --example cluster_cost [PRIMARIES RUNNERS SHARDS WAKE_UPS]` prints both; by
//! default for 100 primaries, 1,000 runners that serve every topic, 1,000 shards of topics, and 1,000 wake-ups a
//! second. docs/production/sizing.md has the formulas.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use std::time::Duration;

use duebox_harness::{RedisCluster, RedisServer, eventually};
use duebox_job::{Shard, TopicName};
use duebox_queue::{ConnectionSettings, Queue};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

/// Connections, and subscribers, of a measurement.
const CLIENTS: usize = 500;
/// Looks of a measurement: each at all of these topics.
const LOOKS: usize = 40;
const TOPICS: usize = 1_000;
/// Published messages of a measurement.
const MESSAGES: usize = 400;
const BUS_MESSAGES: usize = 20_000;
/// Servers of the cluster on whose bus messages travel.
const BUS_SERVERS: usize = 9;

/// The queues of a runner: jobs, handlers' store, HTTP.
const QUEUES: f64 = 3.0;
/// `redis.poll` by default, the rounds of maintenance, and the reports of a runner, s.
const POLL_S: f64 = 1.0;
const MAINTENANCE_S: f64 = 10.0;
const STATUS_S: f64 = 10.0;

/// Measured constants.
struct Constants {
    /// Memory of Redis and of the runner for a connection, bytes.
    server_bytes: f64,
    client_bytes: f64,
    /// CPU time of Redis for a look at an idle topic, and for a wake-up's delivery to a subscriber, µs.
    look_us: f64,
    delivery_us: f64,
    /// CPU time for a message on the bus, for each server: of the one that sends it, and of one that receives it, µs.
    bus_send_us: f64,
    bus_receive_us: f64,
}

#[tokio::main]
async fn main() {
    let given: Vec<f64> = std::env::args().skip(1).map(|text| text.parse().unwrap()).collect();
    let [primaries, runners, shards, wake_ups] = match given[..] {
        [] => [100.0, 1_000.0, 1_000.0, 1_000.0],
        [primaries, runners, shards, wake_ups] => [primaries, runners, shards, wake_ups],
        _ => panic!("give none or four numbers: PRIMARIES RUNNERS SHARDS WAKE_UPS"),
    };
    let (server_bytes, client_bytes, look_us, delivery_us) = one_server().await;
    let (bus_send_us, bus_receive_us) = bus().await;
    let constants =
        Constants { server_bytes, client_bytes, look_us, delivery_us, bus_send_us, bus_receive_us };
    constants.print();
    constants.plan(primaries, runners, shards, wake_ups);
}

impl Constants {
    fn print(&self) {
        println!("measured");
        row("memory of Redis for a connection", self.server_bytes / 1024.0, "KiB");
        row("memory of a runner for a connection", self.client_bytes / 1024.0, "KiB");
        row("CPU time of Redis for a look at an idle topic", self.look_us, "µs");
        row("CPU time of Redis for a wake-up and subscriber", self.delivery_us, "µs");
        row("CPU time to send a message on the bus, for each server", self.bus_send_us, "µs");
        row("CPU time to receive one", self.bus_receive_us, "µs");
    }

    fn plan(&self, primaries: f64, runners: f64, shards: f64, wake_ups: f64) {
        println!(
            "\n{primaries} primaries with a replica each, {runners} runners that serve {shards} shards, \
             {wake_ups} wake-ups a second"
        );
        let connections = QUEUES * runners;
        row("connections at a primary: 3 × runners", connections, "");
        row("  their memory", connections * self.server_bytes / 1_048_576.0, "MiB");
        let own = QUEUES * primaries + 2.0;
        row("connections of a runner: 3 × primaries + 2", own, "");
        row("  their memory", own * self.client_bytes / 1_048_576.0, "MiB");
        let looks = runners * shards * (1.0 / POLL_S + 1.0 / MAINTENANCE_S) / primaries;
        row("looks at a primary: runners × shards × (1/1 s + 1/10 s) / primaries", looks, "/s");
        row("  of a core", looks * self.look_us / 1e4, "%");
        let deliveries = wake_ups * runners / primaries;
        row("deliveries at a primary: wake-ups × runners / primaries", deliveries, "/s");
        row("  of a core", deliveries * self.delivery_us / 1e4, "%");
        let most = 1e6 * 0.5 * primaries / (self.delivery_us * runners);
        row("  wake-ups at half a core of it", most, "/s");
        let servers = 2.0 * primaries;
        let sent = wake_ups / primaries * (servers - 1.0);
        row("bus messages that a primary sends: wake-ups / primaries × other servers", sent, "/s");
        let bus_us = sent * self.bus_send_us + wake_ups * self.bus_receive_us;
        row("  and receives: wake-ups; of a core, both", bus_us / 1e4, "%");
        row(
            "reports at the primary of the set of runners: runners / 10 s",
            runners / STATUS_S,
            "/s",
        );
    }
}

fn row(what: &str, value: f64, unit: &str) {
    println!("  {what:<76} {value:>12.2} {unit}");
}

/// Bytes at the server and here for a connection, and µs of a look and of a delivery.
async fn one_server() -> (f64, f64, f64, f64) {
    let server = RedisServer::start();
    let settings = ConnectionSettings::new(server.url());
    let first = Queue::connect(&settings, "duebox").await.unwrap();
    let (redis_before, own_before) = (info(&server, "memory", "used_memory"), own_bytes());
    let mut queues = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        queues.push(Queue::connect(&settings, "duebox").await.unwrap());
    }
    // Redis shrinks the buffers of idle clients after some seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let each = |bytes: f64| bytes / CLIENTS as f64;
    let server_bytes = each(info(&server, "memory", "used_memory") - redis_before);
    let client_bytes = each(own_bytes() - own_before);
    drop(queues);

    let shards: Vec<Shard> = (0..TOPICS)
        .map(|number| TopicName::new(&format!("topic-{number}")).unwrap().first_shard())
        .collect();
    let before = cpu_us(&server);
    for _ in 0..LOOKS {
        for some in shards.chunks(125) {
            first.peek(some).await.unwrap();
        }
    }
    let look_us = (cpu_us(&server) - before) / (LOOKS * TOPICS) as f64;

    let mut listeners = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let mut listener = first.listen().await.unwrap();
        listeners.push(tokio::spawn(async move {
            for _ in 0..MESSAGES {
                listener.next().await;
            }
        }));
    }
    let mut producer = producer(&server).await;
    let before = cpu_us(&server);
    for _ in 0..MESSAGES {
        publish(&mut producer, 1).await;
    }
    for listener in listeners {
        listener.await.unwrap();
    }
    let delivery_us = (cpu_us(&server) - before) / (CLIENTS * MESSAGES) as f64;
    (server_bytes, client_bytes, look_us, delivery_us)
}

/// µs to send a message to a server on the bus, and to receive one.
async fn bus() -> (f64, f64) {
    let cluster = RedisCluster::start(BUS_SERVERS);
    let servers = cluster.initial_primaries();
    let mut producer = producer(&servers[0]).await;
    let cpu = || -> Vec<f64> { servers.iter().map(cpu_us).collect() };
    let received = || -> f64 {
        let counts = servers.iter().map(|server| {
            let text = server.cli(&["CLUSTER", "INFO"]);
            field(&text, "cluster_stats_messages_publish_received").unwrap_or(0.0)
        });
        counts.sum()
    };
    let before = cpu();
    for _ in 0..BUS_MESSAGES / 100 {
        publish(&mut producer, 100).await;
    }
    eventually("all have arrived", || received() >= (BUS_MESSAGES * (BUS_SERVERS - 1)) as f64);
    let spent: Vec<f64> = cpu().iter().zip(before).map(|(after, before)| after - before).collect();
    let others: f64 = spent.iter().sum::<f64>() - spent[0];
    let sent = (BUS_MESSAGES * (BUS_SERVERS - 1)) as f64;
    (spent[0] / sent, others / sent)
}

async fn producer(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    // Deliveries to many subscribers take their time on a busy machine.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Publishes wake-ups, as a push does.
async fn publish(producer: &mut MultiplexedConnection, times: usize) {
    let mut commands = redis::pipe();
    for _ in 0..times {
        commands.cmd("PUBLISH").arg("duebox:{topic-0}:wake").arg(0).ignore();
    }
    let () = commands.query_async(producer).await.unwrap();
}

fn cpu_us(server: &RedisServer) -> f64 {
    let text = server.cli(&["INFO", "cpu"]);
    (field(&text, "used_cpu_user").unwrap() + field(&text, "used_cpu_sys").unwrap()) * 1e6
}

fn info(server: &RedisServer, section: &str, name: &str) -> f64 {
    field(&server.cli(&["INFO", section]), name).unwrap()
}

fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line?.trim().parse().ok()
}

/// The resident memory of this process.
fn own_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<f64>().unwrap() * 1024.0
}
