//! What a failover loses of confirmed pushes, for each durability, on servers of its own.
//!
//! `cargo run --release -p duebox-queue --example failover_loss [ROUNDS]` prints the figures. Eight producers push one
//! job after the other; while they do, the primary dies (`kill -9`). A confirmed push is lost if the new primary does
//! not have the job. Two kinds of death:
//!
//! - *process*: a group with sentinels. The kernel still delivers what the dead process has sent to its replicas.
//! - *machine*: what was on its way to the replica is gone, too: a proxy with a delay of 5 ms each way is between the
//!   primary and its replica, and is closed with the primary. The replica is then made a primary by hand.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duebox_harness::{Proxy, RedisServer, SentinelGroup, eventually};
use duebox_queue::{
    ConnectionSettings, Durability, IfExists, JobId, NewJob, Queue, QueueError, TopicName,
};

const PRODUCERS: usize = 8;
/// How long the producers push before the primary dies.
const PUSHES_FOR: Duration = Duration::from_millis(300);
/// The delay of the network between the machines, one way.
const DELAY: Duration = Duration::from_millis(5);

/// What the rounds of one row came to.
#[derive(Default)]
struct Row {
    confirmed: usize,
    lost: usize,
    rounds_with_loss: usize,
    spent: Duration,
}

/// The ids of confirmed pushes, and how long the producers pushed.
type Pushed = (Vec<String>, Duration);

#[tokio::main]
async fn main() {
    let rounds = std::env::args().nth(1).map_or(20, |text| text.parse().unwrap());
    println!(
        "{:<10} {:<10} {:>7} {:>10} {:>7} {:>17} {:>10}",
        "death", "durability", "rounds", "confirmed", "lost", "rounds with loss", "pushes/s"
    );
    let all = [Durability::Async, Durability::Replica, Durability::Disk];
    for durability in all.into_iter().filter(|durability| can_wait_for(*durability)) {
        let mut process = Row::default();
        let mut machine = Row::default();
        for _ in 0..rounds {
            let (confirmed, lost, spent) = process_dies(durability).await;
            process.add(confirmed, lost, spent);
            // With one server in the address "disk" waits for its disk alone, which is lost with the machine.
            if durability != Durability::Disk {
                let (confirmed, lost, spent) = machine_dies(durability).await;
                machine.add(confirmed, lost, spent);
            }
        }
        process.print("process", durability, rounds);
        if durability != Durability::Disk {
            machine.print("machine", durability, rounds);
        }
    }
}

/// The arguments of servers: those of a disk that has each confirmed write, if it is waited for.
fn server_args(durability: Durability) -> &'static [&'static str] {
    match durability {
        Durability::Disk => &["--appendonly", "yes", "--appendfsync", "always"],
        _ => &[],
    }
}

/// Whether this server has the command that a durability needs. Redis 7.0 has no WAITAOF.
fn can_wait_for(durability: Durability) -> bool {
    let server = RedisServer::start();
    durability != Durability::Disk || !server.cli(&["COMMAND", "INFO", "WAITAOF"]).is_empty()
}

impl Row {
    fn add(&mut self, confirmed: usize, lost: usize, spent: Duration) {
        self.confirmed += confirmed;
        self.lost += lost;
        self.rounds_with_loss += usize::from(lost > 0);
        self.spent += spent;
    }

    fn print(&self, death: &str, durability: Durability, rounds: usize) {
        let rate = self.confirmed as f64 / self.spent.as_secs_f64();
        println!(
            "{death:<10} {:<10} {rounds:>7} {:>10} {:>7} {:>17} {rate:>10.0}",
            durability.word(),
            self.confirmed,
            self.lost,
            self.rounds_with_loss
        );
    }
}

async fn process_dies(durability: Durability) -> (usize, usize, Duration) {
    let mut group = SentinelGroup::with_args(server_args(durability));
    let settings = ConnectionSettings::new(group.url()).with_durability(durability);
    let producers = Producers::start(&settings).await;
    let old = group.primary().port();
    producers.push_until_death(|| group.primary().stop()).await;
    let (confirmed, spent) = producers.stop().await;
    group.wait_for_successor_of(old);
    eventually("the sentinels name the new primary", || group.primary().port() != old);
    (confirmed.len(), missing_at(group.primary(), &confirmed), spent)
}

async fn machine_dies(durability: Durability) -> (usize, usize, Duration) {
    let mut primary = RedisServer::start();
    let proxy = Proxy::start(primary.port());
    proxy.delay(DELAY);
    let of = format!("127.0.0.1 {}", proxy.port());
    primary.cli(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::with_args(&["--replicaof", &of]);
    eventually("the replica follows", || {
        replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
            && primary.cli(&["INFO", "replication"]).contains("state=online")
    });
    let settings = ConnectionSettings::new(primary.url()).with_durability(durability);
    let producers = Producers::start(&settings).await;
    producers
        .push_until_death(|| {
            // What is under way to the replica is lost with the machine.
            proxy.refuse(true);
            proxy.cut();
            primary.stop();
        })
        .await;
    let (confirmed, spent) = producers.stop().await;
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    (confirmed.len(), missing_at(&replica, &confirmed), spent)
}

/// How many of these jobs a server does not have.
fn missing_at(server: &RedisServer, ids: &[String]) -> usize {
    let asks: String =
        ids.iter().map(|id| format!("HEXISTS duebox:{{mail}}:jobs {id}\n")).collect();
    server.pipe(&asks).iter().filter(|found| *found == "0").count()
}

/// Tasks that push one job after the other.
struct Producers {
    over: Arc<AtomicBool>,
    began: Instant,
    tasks: Vec<tokio::task::JoinHandle<Pushed>>,
}

impl Producers {
    async fn start(settings: &ConnectionSettings) -> Self {
        let over = Arc::<AtomicBool>::default();
        let mut tasks = Vec::with_capacity(PRODUCERS);
        for producer in 0..PRODUCERS {
            let queue = Queue::connect(settings, "duebox").await.unwrap();
            // A replica that has just synced confirms nothing for up to a second.
            while queue.check_durability().await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            tasks.push(tokio::spawn(produce(queue, producer, Arc::clone(&over))));
        }
        Self { over, began: Instant::now(), tasks }
    }

    /// Lets the primary die while the producers push.
    async fn push_until_death(&self, dies: impl FnOnce()) {
        tokio::time::sleep(PUSHES_FOR.saturating_sub(self.began.elapsed())).await;
        tokio::task::block_in_place(dies);
        self.over.store(true, Ordering::Relaxed);
    }

    async fn stop(self) -> Pushed {
        let (mut confirmed, mut spent) = (Vec::new(), Duration::ZERO);
        for task in self.tasks {
            let (ids, pushed_for) = task.await.unwrap();
            confirmed.extend(ids);
            spent = spent.max(pushed_for);
        }
        (confirmed, spent)
    }
}

/// Pushes until the primary is dead; returns what was confirmed, and the time until the last confirmation.
async fn produce(queue: Queue, producer: usize, over: Arc<AtomicBool>) -> Pushed {
    let topic = TopicName::new("mail").unwrap();
    let (began, mut last) = (Instant::now(), Duration::ZERO);
    let (mut confirmed, mut pushed) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        let id = format!("{producer}-{pushed}");
        pushed += 1;
        let job = NewJob::new(JobId::new(&id).unwrap(), "{}");
        // A call that ends after the death may have been repeated at the new primary.
        match queue.push(&topic, &[job], IfExists::Reject).await {
            Ok(_) if over.load(Ordering::Relaxed) => break,
            Ok(_) => confirmed.push(id),
            Err(QueueError::Unconfirmed(_)) => {}
            Err(_) => break,
        }
        last = began.elapsed();
    }
    (confirmed, last)
}
