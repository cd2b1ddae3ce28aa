//! Wrong clocks, by a library that is preloaded into the process and adds an offset from a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

const LIBRARY: &str = include_str!("clock.c");
const HOUR_US: i64 = 3_600_000_000;
/// How long after a jump ahead a run may still begin under a lease of before: it waits for a thread, and its
/// report comes over HTTP.
const LAPSE: Duration = Duration::from_millis(500);

/// A clock with an offset, for processes that preload the library.
struct Clock {
    library: PathBuf,
    offset: PathBuf,
}

impl Clock {
    /// Compiles the library into a folder; the offset is zero.
    fn new(dir: &Path) -> anyhow::Result<Self> {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        fs::write(&source, LIBRARY)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        ensure!(compiler.status().context("cannot run cc")?.success(), "cc failed");
        let offset = fs::read_dir(dir)?.count();
        let clock = Self { library, offset: dir.join(format!("offset-{offset}")) };
        clock.set(0)?;
        Ok(clock)
    }

    fn set(&self, us: i64) -> anyhow::Result<()> {
        // In place, because the processes have mapped the file.
        let file =
            fs::File::options().write(true).create(true).truncate(false).open(&self.offset)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &us.to_ne_bytes(), 0)?;
        Ok(())
    }

    fn env(&self) -> [(&'static str, String); 2] {
        let text = |path: &Path| path.display().to_string();
        [("LD_PRELOAD", text(&self.library)), ("CLOCK_OFFSET", text(&self.offset))]
    }
}

pub(super) fn runners(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::prepare(context, &Setting { lease_ms: 3_000, ..Setting::default() })?;
    let mut clocks = Vec::new();
    for offset in [HOUR_US, -HOUR_US, 0] {
        let clock = Clock::new(scene.dir.path())?;
        clock.set(offset)?;
        scene.fleet.add(&clock.env())?;
        clocks.push(clock);
    }
    scene.start_load(context)?;
    scene.mark_memory();
    for _ in 0..context.times(20, 4) {
        scene.pause(100..500);
        let us = scene.rng.i64(-HOUR_US..HOUR_US);
        clocks[2].set(us)?;
        scene.ledger.fault_ended();
    }
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

/// A jump ahead ends every lease. A retry that is decided then waits for an hour when the clock is back, so
/// the last jump is far ahead.
pub(super) fn redis(context: &Context) -> anyhow::Result<Outcome> {
    let dir = tempfile::tempdir()?;
    let clock = Clock::new(dir.path())?;
    let policy = Policy { resume_max: Duration::from_secs(3), ..Policy::lost_data() };
    let redis_env = clock.env().to_vec();
    let setting = Setting { redis_env, lease_ms: 3_000, policy, ..Setting::default() };
    let mut scene = Scene::start(context, setting)?;
    let mut offset = 0;
    for _ in 0..context.times(8, 2) {
        for next in [HOUR_US, 0, -HOUR_US, 0] {
            // Most runs begin outside the time in which a jump explains a second one.
            scene.pause(1_000..2_000);
            jump(&scene, &clock, next, next > offset)?;
            offset = next;
        }
    }
    jump(&scene, &clock, 2 * HOUR_US, true)?;
    Ok(Outcome::Judged(Box::new(scene.finish()?)))
}

/// A jump back ends no lease.
fn jump(scene: &Scene, clock: &Clock, offset: i64, is_ahead: bool) -> anyhow::Result<()> {
    let from = Instant::now();
    clock.set(offset)?;
    scene.ledger.fault_ended();
    if is_ahead {
        scene.ledger.leases_lapsed(from, from + LAPSE);
    }
    Ok(())
}
