//! A slot moves as a whole (`CLUSTER MIGRATESLOTS` of Valkey 9, `CLUSTER MIGRATION` of Redis 8.4) while jobs are pushed
//! and run: no call fails, and nothing is lost or runs twice. On a server without either the test has nothing to do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use duebox_harness::{RedisCluster, eventually};
use duebox_queue::{IfExists, Pushed, Queue};

use crate::cluster::{connect, owner_of, run, topic};
use crate::fixture::job;

const KEY: &str = "duebox:{mail}:jobs";
const MOVES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn slots_move_as_a_whole_under_load() {
    let mut cluster = RedisCluster::start(2);
    let help = cluster.primaries()[0].cli(&["CLUSTER", "HELP"]);
    let command = match (help.contains("MIGRATESLOTS"), help.contains("MIGRATION IMPORT")) {
        (true, _) => Atomic::MigrateSlots,
        (false, true) => Atomic::Migration,
        (false, false) => {
            println!("this server moves slots step by step only");
            return;
        }
    };
    let queue = connect(&cluster).await;
    let over = Arc::<AtomicBool>::default();
    let producer = tokio::spawn(push_until(Arc::clone(&over), queue.clone()));
    let consumer = tokio::spawn(run_until(Arc::clone(&over), queue.clone()));
    let slot = cluster.primaries()[0].cli(&["CLUSTER", "KEYSLOT", KEY]);
    for _ in 0..MOVES {
        move_slot(&mut cluster, &slot, command);
    }
    over.store(true, Ordering::Relaxed);
    let pushed = producer.await.unwrap();
    let mut ran = consumer.await.unwrap();
    loop {
        let more = run(&queue, "mail").await;
        if more.is_empty() {
            break;
        }
        ran.extend(more);
    }
    println!("{} jobs during {MOVES} moves", pushed.len());
    let once: BTreeSet<String> = ran.iter().cloned().collect();
    assert_eq!(once.len(), ran.len(), "a job ran twice");
    assert_eq!(once, pushed);
}

/// The command with which a server moves slots as a whole.
#[derive(Clone, Copy)]
enum Atomic {
    /// Sent to the server that has them.
    MigrateSlots,
    /// Sent to the server that is to have them.
    Migration,
}

/// Moves a slot to the other primary, and waits until it is there.
fn move_slot(cluster: &mut RedisCluster, slot: &str, command: Atomic) {
    let servers = cluster.primaries();
    let ids: Vec<String> = servers.iter().map(|server| server.cli(&["CLUSTER", "MYID"])).collect();
    let owner = |by: usize| owner_of(&servers[by].cli(&["CLUSTER", "SLOTS"]), slot);
    let from = ids.iter().position(|id| owner(0).as_ref() == Some(id)).unwrap();
    let to = &ids[1 - from];
    match command {
        Atomic::MigrateSlots => {
            servers[from].cli(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to])
        }
        Atomic::Migration => servers[1 - from].cli(&["CLUSTER", "MIGRATION", "IMPORT", slot, slot]),
    };
    eventually("both servers know that the slot has moved", || {
        (0..2).all(|by| owner(by).as_ref() == Some(to))
    });
}

async fn push_until(over: Arc<AtomicBool>, queue: Queue) -> BTreeSet<String> {
    let mut pushed = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        let id = pushed.len().to_string();
        let stored = queue.push(&topic("mail"), &[job(&id)], IfExists::Reject).await;
        assert_eq!(stored.unwrap(), [Pushed::Pushed], "job {id}");
        pushed.insert(id);
    }
    pushed
}

async fn run_until(over: Arc<AtomicBool>, queue: Queue) -> Vec<String> {
    let mut ran = Vec::new();
    while !over.load(Ordering::Relaxed) {
        ran.extend(run(&queue, "mail").await);
    }
    ran
}
