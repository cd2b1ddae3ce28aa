//! What every run stands on: a fresh Redis, the jobs in it, a manifest, and a look at what is left.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use duebox_harness::{Daemon, RedisServer};
use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{ConnectionSettings, Due, IfExists, NewJob, Pushed, Queue};
use redis::aio::ConnectionManager;
use tempfile::TempDir;

use crate::Args;

const TOPIC: &str = "bench";
/// How often Redis is looked at; a look costs it a few microseconds.
const LOOK: Duration = Duration::from_millis(5);
/// Without any progress for so long, a run has failed.
const STALL_MAX: Duration = Duration::from_secs(30);

/// A Redis with a queue in it.
pub(crate) struct Ground {
    pub(crate) redis: RedisServer,
    pub(crate) queue: Queue,
    pub(crate) topic: TopicName,
    dir: TempDir,
}

/// How many jobs were left at a time since the run's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    pub(crate) left: u64,
    pub(crate) leased: u64,
}

impl Ground {
    pub(crate) async fn prepare() -> anyhow::Result<Self> {
        let redis = RedisServer::start();
        let settings = ConnectionSettings { url: redis.url(), password: None };
        let queue = Queue::connect(&settings, "duebox").await?;
        let topic = TopicName::new(TOPIC)?;
        let dir = tempfile::tempdir().context("cannot make a directory for the manifest")?;
        Ok(Self { redis, queue, topic, dir })
    }

    /// Pushes jobs named `{name}-{n}`, each due as `due` says of its number, and checks that all
    /// were taken.
    pub(crate) async fn push(
        &self,
        name: &str,
        count: u64,
        payload_len: u64,
        due: impl Fn(u64) -> Due,
    ) -> anyhow::Result<()> {
        let payload = Bytes::from("x".repeat(usize::try_from(payload_len)?));
        let mut jobs = Vec::with_capacity(usize::try_from(count)?);
        for number in 0..count {
            jobs.push(NewJob {
                id: JobId::new(format!("{name}-{number:08}"))?,
                due: due(number),
                payload: payload.clone(),
                options: Options::default(),
            });
        }
        for batch in jobs.chunks(10_000) {
            let pushed = self.queue.push(&self.topic, batch, IfExists::Reject).await?;
            ensure!(pushed.iter().all(|word| *word == Pushed::Pushed), "a push was refused");
        }
        Ok(())
    }

    /// Starts the daemon with the topic bound to `handler`, logging from `log` on.
    pub(crate) fn start_daemon(
        &self,
        args: &Args,
        handler: &Path,
        log: &str,
    ) -> anyhow::Result<Daemon> {
        let text = format!(
            "[redis]\nurl = {:?}\n\n[runner]\nmax_jobs = {in_flight}\nlog = {log:?}\n\n\
             [topics.{TOPIC}]\nhandler = {:?}\nconcurrency = {in_flight}\n\
             [topics.{TOPIC}.sandbox]\npayload = \"2MiB\"\n",
            self.redis.url(),
            handler.display().to_string(),
            in_flight = args.in_flight,
        );
        Ok(Daemon::start(&self.write_manifest(&text)?))
    }

    /// Writes the manifest.
    pub(crate) fn write_manifest(&self, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.path().join("duebox.toml");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Looks at the topic until no job is left, or nothing moves any more.
    pub(crate) async fn watch(&self, daemon: &mut Daemon) -> anyhow::Result<Vec<Sample>> {
        let mut connection = self.queue.redis();
        let started = Instant::now();
        let mut samples: Vec<Sample> = Vec::new();
        let mut moved = started;
        loop {
            let (left, leased) = self.look(&mut connection).await?;
            let at = started.elapsed();
            if samples.last().is_none_or(|last| (last.left, last.leased) != (left, leased)) {
                moved = Instant::now();
            }
            samples.push(Sample { at, left, leased });
            if left == 0 && leased == 0 {
                return Ok(samples);
            }
            if let Some(status) = daemon.exited() {
                bail!("the daemon ended ({status}) with {left} jobs left:\n{}", log_of(daemon));
            }
            if moved.elapsed() > STALL_MAX {
                bail!("{left} jobs are left and nothing moves:\n{}", log_of(daemon));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the daemon serves: it has done a job that was pushed for this.
    pub(crate) async fn wait_until_served(&self, daemon: &mut Daemon) -> anyhow::Result<()> {
        self.push("warm-up", 1, 0, |_| Due::Now).await?;
        self.watch(daemon).await.map(drop)
    }

    async fn look(&self, connection: &mut ConnectionManager) -> anyhow::Result<(u64, u64)> {
        Ok(redis::pipe()
            .cmd("HLEN")
            .arg(self.key("jobs"))
            .cmd("ZCARD")
            .arg(self.key("unack"))
            .query_async(connection)
            .await?)
    }

    /// Fails unless nothing of any job is left, in any key.
    pub(crate) async fn ensure_clean(&self) -> anyhow::Result<()> {
        let stages = [
            "jobs",
            "opts",
            "pending",
            "ready",
            "unack",
            "retry",
            "attempts",
            "dead",
            "dead:jobs",
            "dead:opts",
            "dead:info",
            "outbox",
        ];
        let mut connection = self.queue.redis();
        for stage in stages {
            let found: u64 =
                redis::cmd("EXISTS").arg(self.key(stage)).query_async(&mut connection).await?;
            ensure!(found == 0, "{} holds something after every job was acked", self.key(stage));
        }
        Ok(())
    }

    /// Processor time Redis has used so far, in seconds.
    pub(crate) async fn redis_cpu_s(&self) -> anyhow::Result<f64> {
        let mut connection = self.queue.redis();
        let info: redis::InfoDict =
            redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
        let used = |name| info.get::<f64>(name).unwrap_or_default();
        Ok(used("used_cpu_user") + used("used_cpu_sys"))
    }

    fn key(&self, stage: &str) -> String {
        format!("duebox:{{{TOPIC}}}:{stage}")
    }
}

fn log_of(daemon: &Daemon) -> String {
    let lines = daemon.lines();
    let last: Vec<&str> = lines.iter().rev().take(20).rev().map(|line| line.text()).collect();
    last.join("\n")
}
