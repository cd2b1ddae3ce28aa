//! Connections to Redis that are slow, silent or closed.

use std::time::{Duration, Instant};

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

/// How long the daemon may take to drop a connection that went silent under load: a reply is overdue after a
/// second, is looked for each quarter of a second, and Redis is asked over a second connection.
const SILENCE_MAX: Duration = Duration::from_millis(3_500);

fn proxied() -> Setting {
    Setting { is_proxied: true, lease_ms: 3_000, ..Setting::default() }
}

pub(super) fn delayed(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, proxied())?;
    for _ in 0..context.times(50, 10) {
        let delay = Duration::from_millis(scene.rng.u64(..40));
        scene.proxy()?.delay(delay);
        scene.pause(50..250);
    }
    scene.proxy()?.delay(Duration::ZERO);
    scene.ledger.fault_ended();
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn stalled(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, proxied())?;
    for _ in 0..context.times(20, 4) {
        scene.pause(100..500);
        scene.proxy()?.stall(true);
        scene.pause(50..500);
        scene.proxy()?.stall(false);
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

/// Redis answers new connections all the time, so nothing tells when the fault ends: what counts is how
/// long the daemon takes to notice.
pub(super) fn half_open(context: &Context) -> anyhow::Result<Outcome> {
    let policy = Policy { resume_max: SILENCE_MAX, breaks_runs: true, ..Policy::default() };
    let mut scene = Scene::start(context, Setting { lease_ms: 30_000, policy, ..proxied() })?;
    for _ in 0..context.times(3, 1) {
        scene.pause(200..800);
        scene.proxy()?.half_open();
        scene.ledger.fault_ended();
        scene.pause(4_000..5_000);
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn killed(context: &Context) -> anyhow::Result<Outcome> {
    let scene = Scene::start(context, Setting { lease_ms: 2_000, ..Setting::default() })?;
    let seconds = context.times(15, 4) as u64;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(seconds) {
        scene.redis.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        scene.redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        scene.ledger.fault_ended();
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

pub(super) fn paused(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::start(context, Setting { lease_ms: 3_000, ..Setting::default() })?;
    for number in 0..context.times(20, 4) {
        scene.pause(100..500);
        let ms = scene.rng.u64(50..500);
        let what = if number % 2 == 0 { "ALL" } else { "WRITE" };
        scene.redis.cli(&["CLIENT", "PAUSE", &ms.to_string(), what]);
        std::thread::sleep(Duration::from_millis(ms));
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}
