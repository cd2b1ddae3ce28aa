//! Redis is killed, loses the end of its append-only file, or comes back with older data.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use duebox_harness::output_with;

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting, append_only};
use crate::table::Outcome;

/// What Redis may lose with `everysec`.
const SECOND: Duration = Duration::from_secs(1);
/// How old the end of the append-only file may be that a row cuts off.
const TAIL: Duration = Duration::from_secs(2);
/// The longest end that a row cuts off, in bytes.
const TAIL_BYTES: u64 = 20_000;

pub(super) fn killed_always(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = start(context, append_only("always"), Policy::default())?;
    for _ in 0..context.times(50, 8) {
        scene.pause(100..700);
        kill(&mut scene, |_| Ok(()))?;
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn killed_everysec(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = start(context, append_only("everysec"), Policy::lost_data())?;
    for _ in 0..context.times(12, 2) {
        // What is pushed longer than a second before the kill must survive.
        scene.pause(2_500..4_000);
        let at = Instant::now();
        kill(&mut scene, |_| Ok(()))?;
        scene.ledger.data_lost(before(at, SECOND)?, at);
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn truncated_file(context: &Context) -> anyhow::Result<Outcome> {
    let args = [append_only("always"), vec!["--aof-load-truncated".to_owned(), "yes".to_owned()]];
    let mut scene = start(context, args.concat(), Policy::lost_data())?;
    for _ in 0..context.times(10, 2) {
        scene.pause(4_000..6_000);
        let at = Instant::now();
        let bytes = scene.rng.u64(1..TAIL_BYTES);
        kill(&mut scene, |dir| {
            let file = append_only_file(dir)?;
            let length = fs::metadata(&file)?.len();
            fs::File::options().write(true).open(&file)?.set_len(length.saturating_sub(bytes))?;
            // Redis 7.0 alone keeps the first commands of the transaction that was cut, and the next load skips
            // the one that follows.
            repair(&file)
        })?;
        scene.ledger.data_lost(before(at, TAIL)?, at);
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn older_snapshot(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = start(context, Vec::new(), Policy::lost_data())?;
    for _ in 0..context.times(5, 1) {
        scene.pause(3_000..4_500);
        let from = Instant::now();
        scene.redis.cli(&["SAVE"]);
        scene.pause(1_000..3_000);
        let at = Instant::now();
        kill(&mut scene, |_| Ok(()))?;
        scene.ledger.data_lost(from, at);
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

fn start(context: &Context, redis: Vec<String>, policy: Policy) -> anyhow::Result<Scene> {
    Scene::start(context, Setting { redis, lease_ms: 3_000, policy, ..Setting::default() })
}

fn before(at: Instant, time: Duration) -> anyhow::Result<Instant> {
    at.checked_sub(time).context("the machine has just started")
}

/// Kills Redis, changes its data, and starts it again after a while.
fn kill(scene: &mut Scene, change: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    scene.redis.stop();
    change(scene.redis.dir())?;
    scene.pause(0..400);
    scene.redis.restart();
    scene.ledger.fault_ended();
    Ok(())
}

/// The file that Redis appends to.
fn append_only_file(dir: &Path) -> anyhow::Result<PathBuf> {
    let folder = dir.join("appendonlydir");
    let files = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let incremental = files.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    incremental.max().context("Redis has no append-only file")
}

fn repair(file: &Path) -> anyhow::Result<()> {
    let mut tool = Command::new("redis-check-aof");
    // A file that happens to end with a whole command is not asked about.
    let ended = output_with(tool.arg("--fix").arg(file), b"y\n");
    let status = ended.context("cannot run redis-check-aof")?.status;
    ensure!(status.success(), "redis-check-aof --fix: {status}");
    Ok(())
}
