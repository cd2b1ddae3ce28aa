//! Memory: what a pending job takes in Redis, what a daemon with many modules holds at rest; and how
//! long a start takes until the first job is done, when the modules have been compiled before.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use duebox_harness::Daemon;
use duebox_queue::Due;

use crate::figures::Figures;
use crate::ground::{Ground, TOPIC, new_jobs, push_to};
use crate::machine::resident_bytes;
use crate::module::edition;
use crate::rows::Row;
use crate::settings::Settings;

/// Modules of a daemon that has many: each another build, in the languages of the three SDKs in turn.
const MODULES: usize = 20;
const LANGUAGES: [&str; 3] = ["noop-rust", "noop-as", "noop-go"];
/// How far away the pending jobs' due times are.
const FAR: Duration = Duration::from_secs(86_400);
/// The pause between two looks for the first job's end.
const LOOK: Duration = Duration::from_millis(1);
/// How long a daemon that has done its first job is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    figures.add(Row::RedisBytes, pending_bytes(settings).await?);
    let ground = Ground::prepare().await?;
    let modules = write_modules(&ground, settings)?;
    let (start_ms, _) = second_start(&ground, settings, &modules[..1]).await?;
    let (start_many_ms, rest_bytes) = second_start(&ground, settings, &modules).await?;
    figures.add(Row::Start, start_ms);
    figures.add(Row::StartMany, start_many_ms);
    figures.add(Row::RestMemory, rest_bytes as f64 / 1e6);
    Ok(())
}

/// Bytes of Redis' memory for each pending job with an id of 26 characters.
async fn pending_bytes(settings: &Settings) -> anyhow::Result<f64> {
    let ground = Ground::prepare().await?;
    let count = settings.pending_jobs;
    let name = "x".repeat(26 - "-00000000".len());
    let jobs = new_jobs(&name, count, settings.payload, |number| {
        Due::In(FAR + Duration::from_millis(number))
    })?;
    let before = ground.load().await?;
    push_to(&ground.queue, &ground.topic, &jobs).await?;
    let after = ground.load_since(before, 0).await?;
    let depths = ground.queue.depths(std::slice::from_ref(&ground.topic)).await?;
    ensure!(depths.first().is_some_and(|depths| depths.pending == count), "jobs are missing");
    Ok(after.memory as f64 / count as f64)
}

fn write_modules(ground: &Ground, settings: &Settings) -> anyhow::Result<Vec<PathBuf>> {
    let mut modules = Vec::with_capacity(MODULES);
    for number in 0..MODULES {
        let module = std::fs::read(settings.handler(LANGUAGES[number % LANGUAGES.len()])?)?;
        let path = ground.dir().join(format!("module-{number}.wasm"));
        std::fs::write(&path, edition(&module, number as u64))?;
        modules.push(path);
    }
    Ok(modules)
}

/// Starts the daemon twice, each time with a job that is ready. Says of the second start, whose
/// modules are in the cache, how many ms passed until that job was done, and the bytes of memory the
/// daemon holds when it has done it and rests.
async fn second_start(
    ground: &Ground,
    settings: &Settings,
    modules: &[PathBuf],
) -> anyhow::Result<(f64, u64)> {
    let mut text = ground.manifest_head(settings.in_flight, "warn");
    for (number, module) in modules.iter().enumerate() {
        let name = if number == 0 { TOPIC.to_owned() } else { format!("{TOPIC}.{number}") };
        let module = module.display().to_string();
        text.push_str(&format!("[topics.{name:?}]\nhandler = {module:?}\n"));
    }
    let manifest = ground.write_manifest(&text)?;
    let mut found = (f64::NAN, 0);
    for start in ["first", "second"] {
        ground.push(start, 1, settings.payload, |_| Due::Now).await?;
        let began = Instant::now();
        let mut daemon = Daemon::start(&manifest);
        wait_for_first(ground, &mut daemon).await?;
        let start_ms = began.elapsed().as_secs_f64() * 1e3;
        if start == "second" {
            tokio::time::sleep(REST).await;
            found = (start_ms, resident_bytes(daemon.pid())?);
        }
        ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    }
    ground.ensure_clean().await?;
    Ok(found)
}

async fn wait_for_first(ground: &Ground, daemon: &mut Daemon) -> anyhow::Result<()> {
    let mut connection = ground.queue.redis();
    let deadline = Instant::now() + duebox_harness::patience();
    loop {
        let left: u64 =
            redis::cmd("HLEN").arg(ground.key("jobs")).query_async(&mut connection).await?;
        if left == 0 {
            return Ok(());
        }
        ensure!(daemon.exited().is_none(), "the daemon ended before its first job");
        ensure!(Instant::now() < deadline, "the daemon did not do its first job");
        tokio::time::sleep(LOOK).await;
    }
}
