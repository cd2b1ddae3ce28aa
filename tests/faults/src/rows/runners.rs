//! Runners that are killed, frozen, or out of memory.

use std::time::{Duration, Instant};

use duebox_harness::eventually;

use crate::cgroup::MemoryGroup;
use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

const LEASE: Duration = Duration::from_secs(2);

/// Fills more memory than the group may have.
const HOG: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (drop (memory.grow (i32.const 8000)))
    (memory.fill (i32.const 0) (i32.const 1) (i32.const 524000000))
    (i32.const 0)))"#;

fn setting(runners: usize) -> Setting {
    let policy = Policy::dead_runners(LEASE);
    Setting { runners, lease_ms: LEASE.as_millis() as u64, policy, ..Setting::default() }
}

pub(super) fn killed(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, setting(3))?;
    for _ in 0..context.times(100, 12) {
        scene.pause(0..600);
        let seat = scene.rng.usize(..3);
        scene.fleet.kill(seat)?;
        scene.pause(0..300);
        scene.fleet.start(seat)?;
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn frozen(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, setting(3))?;
    for _ in 0..context.times(10, 2) {
        scene.pause(0..800);
        let (seat, more) = (scene.rng.usize(..3), scene.rng.u64(..1_500));
        scene.fleet.freeze(seat, LEASE + Duration::from_millis(more))?;
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn out_of_memory(context: &Context) -> anyhow::Result<Outcome> {
    let group = match MemoryGroup::create(320 << 20) {
        Ok(group) => group,
        Err(why) => return Ok(Outcome::Skipped(format!("no memory cgroup can be made: {why:#}"))),
    };
    let mut scene = Scene::prepare(context, &setting(2))?;
    std::fs::write(scene.dir.path().join("hog.wat"), HOG)?;
    let hog =
        "[topics.hog]\nhandler = \"hog.wat\"\nmax_crashes = 1\nsandbox = { memory = \"768MiB\" }\n";
    scene.change_manifest("", hog)?;
    let binary = group.program(scene.dir.path())?;
    for _ in 0..2 {
        scene.fleet.add_binary(&binary, &[])?;
    }
    scene.start_load(context)?;
    scene.mark_memory();
    for number in 0..context.times(5, 1) {
        let pushed_at = Instant::now();
        scene.redis.pipe(&format!(
            "MULTI\nHSET duebox:{{hog}}:jobs {number} x\nZADD duebox:{{hog}}:pending 0 {number}\nEXEC"
        ));
        eventually("the kernel kills a daemon", || {
            (0..2).any(|seat| scene.fleet.was_killed(seat, pushed_at).unwrap_or(true))
        });
        for seat in 0..2 {
            if !scene.fleet.runs(seat) {
                scene.fleet.start(seat)?;
            }
        }
        scene.pause(0..1_000);
    }
    let kills = group.kills();
    let mut verdict = scene.finish()?;
    if kills == 0 {
        verdict.problems.push("the kernel killed no daemon".to_owned());
    }
    Ok(Outcome::Judged(Box::new(verdict)))
}
