//! Memory: what a pending job takes in Redis, and what a daemon with many modules holds at rest.
//! Also the time from starting the daemon to the end of its first job with compiled modules in the
//! cache.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use duebox_harness::Daemon;
use duebox_queue::Due;

use crate::builds::distinct_build;
use crate::fixture::{Fixture, TOPIC, new_jobs, push_to};
use crate::machine::resident_bytes;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;

/// Number of modules of a daemon that has many: distinct builds in the languages of the three SDKs
/// in turn.
const MODULES: usize = 20;
const LANGUAGES: [&str; 3] = ["noop-rust", "noop-as", "noop-go"];
/// Due time of the pending jobs, from now.
const FAR: Duration = Duration::from_secs(86_400);
/// Pause between two checks for the end of the first job.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Pause between the first job and the reading of the daemon's memory.
const REST: Duration = Duration::from_secs(2);

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    results.add(Row::RedisBytes, pending_bytes(settings).await?);
    let fixture = Fixture::prepare().await?;
    let modules = write_modules(&fixture, settings)?;
    let (start_ms, _) = second_start(&fixture, settings, &modules[..1]).await?;
    let (start_many_ms, rest_bytes) = second_start(&fixture, settings, &modules).await?;
    results.add(Row::Start, start_ms);
    results.add(Row::StartMany, start_many_ms);
    results.add(Row::RestMemory, rest_bytes as f64 / 1e6);
    Ok(())
}

/// Bytes of Redis memory per pending job with an id of 26 characters.
async fn pending_bytes(settings: &Settings) -> anyhow::Result<f64> {
    let fixture = Fixture::prepare().await?;
    let count = settings.pending_jobs;
    let name = "x".repeat(26 - "-00000000".len());
    let jobs = new_jobs(&name, count, settings.payload, |number| {
        Due::In(FAR + Duration::from_millis(number))
    })?;
    let before = fixture.load().await?;
    push_to(&fixture.queue, &fixture.topic, &jobs).await?;
    let after = fixture.load_since(before, 0).await?;
    let depths = fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await?;
    ensure!(depths.first().is_some_and(|depths| depths.pending == count), "jobs are missing");
    Ok(after.memory as f64 / count as f64)
}

fn write_modules(fixture: &Fixture, settings: &Settings) -> anyhow::Result<Vec<PathBuf>> {
    let mut modules = Vec::with_capacity(MODULES);
    for number in 0..MODULES {
        let module = std::fs::read(settings.handler(LANGUAGES[number % LANGUAGES.len()])?)?;
        let path = fixture.dir().join(format!("module-{number}.wasm"));
        std::fs::write(&path, distinct_build(&module, number as u64))?;
        modules.push(path);
    }
    Ok(modules)
}

/// Starts the daemon twice, each time with one ready job. Returns, for the second start with cached
/// modules, the ms until that job ended and the daemon's memory in bytes when it is idle again.
async fn second_start(
    fixture: &Fixture,
    settings: &Settings,
    modules: &[PathBuf],
) -> anyhow::Result<(f64, u64)> {
    let mut text = fixture.manifest_head(settings.in_flight, "warn");
    for (number, module) in modules.iter().enumerate() {
        let name = if number == 0 { TOPIC.to_owned() } else { format!("{TOPIC}.{number}") };
        let module = module.display().to_string();
        text.push_str(&format!("[topics.{name:?}]\nhandler = {module:?}\n"));
    }
    let manifest = fixture.write_manifest(&text)?;
    let mut found = (f64::NAN, 0);
    for start in ["first", "second"] {
        fixture.push(start, 1, settings.payload, |_| Due::Now).await?;
        let began = Instant::now();
        let mut daemon = Daemon::start(&manifest);
        wait_for_first(fixture, &mut daemon).await?;
        let start_ms = began.elapsed().as_secs_f64() * 1e3;
        if start == "second" {
            tokio::time::sleep(REST).await;
            found = (start_ms, resident_bytes(daemon.pid())?);
        }
        ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    }
    fixture.ensure_clean().await?;
    Ok(found)
}

async fn wait_for_first(fixture: &Fixture, daemon: &mut Daemon) -> anyhow::Result<()> {
    let mut connection = fixture.queue.redis();
    let deadline = Instant::now() + duebox_harness::patience();
    loop {
        let left: u64 =
            redis::cmd("HLEN").arg(fixture.key("jobs")).query_async(&mut connection).await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(daemon.exited().is_none(), "the daemon exited before its first job");
        ensure!(Instant::now() < deadline, "the daemon did not finish its first job");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
