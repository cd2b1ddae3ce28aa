//! Daemons of two versions on one Redis.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use duebox_harness::duebox_binary;

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

const LAYOUT: &str = "duebox:layout";

pub(super) fn two(context: &Context) -> anyhow::Result<Outcome> {
    let Some(old) = std::env::var_os("DUEBOX_OLD_BINARY").map(PathBuf::from) else {
        return Ok(Outcome::Skipped("DUEBOX_OLD_BINARY does not name an older daemon".to_owned()));
    };
    ensure!(old.is_file(), "DUEBOX_OLD_BINARY: {} is not a file", old.display());
    let policy = Policy::dead_runners(Duration::from_secs(2));
    let mut scene = Scene::prepare(context, &Setting { policy, ..Setting::default() })?;
    let old = scene.fleet.add_binary(&old, &[])?;
    let new = scene.fleet.add(&[])?;
    scene.start_load(context)?;
    scene.mark_memory();
    for _ in 0..context.times(10, 2) {
        for seat in [old, new] {
            scene.pause(300..1_000);
            scene.fleet.kill(seat)?;
            scene.fleet.start(seat)?;
        }
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

/// A daemon does not start on a newer layout, and one that runs does no work while Redis has one.
pub(super) fn newer_layout(context: &Context) -> anyhow::Result<Outcome> {
    let setting = Setting { lease_ms: 3_000, ..Setting::default() };
    let mut scene = Scene::prepare(context, &setting)?;
    scene.redis.cli(&["SET", LAYOUT, "2"]);
    let mut run = Command::new(duebox_binary());
    let manifest = scene.dir.path().join("duebox.toml");
    run.arg("run").arg("--manifest").arg(manifest).env("INCARNATION", "refused");
    let refused = run.output()?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && said.contains("has layout \"2\""), "it says: {said}");
    scene.redis.cli(&["SET", LAYOUT, "1"]);
    for _ in 0..setting.runners {
        scene.fleet.add(&[])?;
    }
    scene.start_load(context)?;
    scene.mark_memory();
    for _ in 0..context.times(5, 2) {
        scene.pause(300..800);
        scene.redis.cli(&["SET", LAYOUT, "2"]);
        scene.redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        scene.pause(200..800);
        scene.redis.cli(&["SET", LAYOUT, "1"]);
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}
