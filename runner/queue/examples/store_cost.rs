//! What each verb of a topic's store costs Redis: µs of server time a call, on a redis-server of its own.
//!
//! `cargo run --release -p duebox-queue --example store_cost` prints them for this machine: values of 200
//! bytes, in a store of 1,000 and of 100,000 keys. Each figure is the mean of 5,000 calls.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use std::time::Duration;

use duebox_harness::RedisServer;
use duebox_job::TopicName;
use duebox_queue::{ConnectionSettings, KV_NAMES_MAX, KvCondition, KvWrite, Queue};

const CALLS: usize = 5_000;
const VALUE: [u8; 200] = [b'x'; 200];
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = RedisServer::start();
    let settings = ConnectionSettings::new(server.url());
    let bench = Bench {
        queue: Queue::connect(&settings, "duebox").await.unwrap(),
        topic: TopicName::new("cost").unwrap(),
    };
    let mut redis = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    println!("{:<28} {:>10} {:>10}", "µs a call", "1,000", "100,000");
    bench.fill(0, 1_000).await;
    let small = bench.round(&mut redis).await;
    bench.fill(1_000, KV_NAMES_MAX - 1).await;
    let large = bench.round(&mut redis).await;
    for ((verb, small), (_, large)) in small.into_iter().zip(large) {
        println!("{verb:<28} {small:>10.1} {large:>10.1}");
    }
}

struct Bench {
    queue: Queue,
    topic: TopicName,
}

impl Bench {
    async fn fill(&self, from: usize, to: usize) {
        for number in from..to {
            self.set(&key(number), None, KvCondition::Always).await;
        }
    }

    async fn set(&self, key: &[u8], ttl: Option<Duration>, condition: KvCondition) {
        let wrote = self.queue.kv_set(&self.topic, key, &VALUE, ttl, condition).await.unwrap();
        assert_eq!(wrote, KvWrite::Done(()));
    }

    /// Every verb on keys that are there.
    async fn round(&self, redis: &mut redis::Connection) -> Vec<(&'static str, f64)> {
        let mut costs = Vec::new();
        for verb in ["get", "set", "set, with a ttl", "set, if unchanged", "add", "set and delete"]
        {
            let mut spent = 0;
            for call in 0..CALLS {
                let key = key(call % 1_000);
                let found = self.queue.kv_get(&self.topic, &key).await.unwrap().unwrap();
                let before = script_usec(redis);
                match verb {
                    "get" => drop(self.queue.kv_get(&self.topic, &key).await.unwrap()),
                    "set" => self.set(&key, None, KvCondition::Always).await,
                    "set, with a ttl" => self.set(&key, Some(DAY), KvCondition::Always).await,
                    "set, if unchanged" => {
                        self.set(&key, None, KvCondition::IfRevision(found.revision)).await;
                    }
                    "add" => drop(self.queue.kv_add(&self.topic, b"count", 1).await.unwrap()),
                    _ => {
                        self.queue.kv_delete(&self.topic, &key).await.unwrap();
                        self.set(&key, None, KvCondition::Always).await;
                    }
                }
                spent += script_usec(redis) - before;
            }
            costs.push((verb, spent as f64 / CALLS as f64));
        }
        self.queue.kv_delete(&self.topic, b"count").await.unwrap();
        costs
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

/// µs that the server has spent in scripts since it started.
fn script_usec(redis: &mut redis::Connection) -> u64 {
    let info: redis::InfoDict = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let Some(stats) = info.get::<String>("cmdstat_evalsha") else { return 0 };
    let usec = stats.split(',').find_map(|field| field.strip_prefix("usec="));
    usec.unwrap().parse().unwrap()
}
