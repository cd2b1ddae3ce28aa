//! Redis answers, but refuses: out of memory, read-only, without the scripts, without data.

use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

/// The longest that a job of the load, or its follow-up, stays in Redis on a loaded machine: it has run before a flush
/// that comes later.
const STAY: Duration = Duration::from_millis(1_500);

fn setting() -> Setting {
    Setting { lease_ms: 3_000, ..Setting::default() }
}

pub(super) fn out_of_memory(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, setting())?;
    scene.redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    for _ in 0..context.times(8, 2) {
        scene.pause(200..800);
        scene.redis.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);
        scene.pause(200..1_200);
        scene.redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn read_only(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, setting())?;
    for _ in 0..context.times(8, 2) {
        scene.pause(200..800);
        // A replica of a server that is not there keeps its data and refuses writes.
        scene.redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
        scene.pause(200..1_200);
        scene.redis.cli(&["REPLICAOF", "NO", "ONE"]);
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn scripts_flushed(context: &Context) -> anyhow::Result<Outcome> {
    let scene = Scene::start(context, setting())?;
    for _ in 0..context.times(200, 40) {
        scene.redis.cli(&["SCRIPT", "FLUSH"]);
        scene.ledger.fault_ended();
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn flushed(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, Setting { policy: Policy::lost_data(), ..setting() })?;
    for _ in 0..context.times(5, 1) {
        scene.pause(3_000..5_000);
        let at = Instant::now();
        scene.redis.cli(&["FLUSHALL"]);
        let from = at.checked_sub(STAY).context("the machine has just started")?;
        scene.ledger.data_lost(from, at);
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}
