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

use crate::load::Load;

pub(crate) const TOPIC: &str = "bench";
/// How often Redis is looked at; a look costs it a few microseconds.
const LOOK: Duration = Duration::from_millis(5);
/// Commands of one look.
const LOOK_COMMANDS: u64 = 3;
/// Without any progress for so long, a run has failed.
const STALL_MAX: Duration = Duration::from_secs(30);
/// Where a topic's jobs can be, beside `jobs` and `pending`.
const OTHER_STAGES: [&str; 10] = [
    "opts",
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

/// A Redis with a queue in it.
pub(crate) struct Ground {
    pub(crate) redis: RedisServer,
    pub(crate) queue: Queue,
    pub(crate) topic: TopicName,
    /// Jobs that wait in `pending` and stay there.
    pub(crate) standing: u64,
    /// The pause between two looks.
    pub(crate) look_every: Duration,
    dir: TempDir,
}

/// How a daemon is to run the topic.
pub(crate) struct Binding<'a> {
    pub(crate) handler: &'a Path,
    /// More lines of the topic, such as `snapshot = true`.
    pub(crate) lines: &'a str,
    /// The daemon's `max_jobs` and the topic's `concurrency`.
    pub(crate) in_flight: u64,
    /// What is logged.
    pub(crate) log: &'a str,
}

/// How many jobs were left at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Since the run's start.
    pub(crate) at: Duration,
    /// By Redis' clock, µs since the epoch.
    pub(crate) redis_us: u64,
    /// Without those that stay.
    pub(crate) left: u64,
    pub(crate) leased: u64,
}

impl Ground {
    /// A Redis that persists nothing.
    pub(crate) async fn prepare() -> anyhow::Result<Self> {
        Self::prepare_with(&[]).await
    }

    /// A Redis with more arguments, such as `--appendonly yes`.
    pub(crate) async fn prepare_with(redis_args: &[&str]) -> anyhow::Result<Self> {
        let redis = RedisServer::with_args(redis_args);
        let settings = ConnectionSettings { url: redis.url(), password: None };
        let queue = Queue::connect(&settings, "duebox").await?;
        let topic = TopicName::new(TOPIC)?;
        let dir = tempfile::tempdir().context("cannot make a directory for the manifest")?;
        Ok(Self { redis, queue, topic, standing: 0, look_every: LOOK, dir })
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
        push_to(&self.queue, &self.topic, &new_jobs(name, count, payload_len, due)?).await
    }

    /// Starts the daemon with the topic bound.
    pub(crate) fn start_daemon(&self, binding: &Binding<'_>) -> anyhow::Result<Daemon> {
        let Binding { handler, lines, in_flight, log } = binding;
        let text = format!(
            "{}[topics.{TOPIC}]\nhandler = {:?}\nconcurrency = {in_flight}\n{lines}\
             [topics.{TOPIC}.sandbox]\npayload = \"2MiB\"\n",
            self.manifest_head(*in_flight, log),
            handler.display().to_string(),
        );
        Ok(Daemon::start(&self.write_manifest(&text)?))
    }

    /// The part of a manifest above its topics; compiled modules are kept beside the manifest.
    pub(crate) fn manifest_head(&self, max_jobs: u64, log: &str) -> String {
        format!(
            "[redis]\nurl = {:?}\n\n[runner]\nmax_jobs = {max_jobs}\nlog = {log:?}\ncache = {:?}\n\n",
            self.redis.url(),
            self.dir.path().join("cache").display().to_string(),
        )
    }

    /// Writes the manifest.
    pub(crate) fn write_manifest(&self, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.dir.path().join("duebox.toml");
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// A folder for files of this run.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Looks at the topic until no job is left, or nothing moves any more.
    pub(crate) async fn watch(&self, daemon: &mut Daemon) -> anyhow::Result<Vec<Sample>> {
        self.watch_all(std::slice::from_mut(daemon)).await
    }

    /// The same with several daemons at work.
    pub(crate) async fn watch_all(&self, daemons: &mut [Daemon]) -> anyhow::Result<Vec<Sample>> {
        let mut connection = self.queue.redis();
        let started = Instant::now();
        let mut samples: Vec<Sample> = Vec::new();
        let mut moved = started;
        loop {
            let sample = self.look(&mut connection, started).await?;
            let Sample { left, leased, .. } = sample;
            if samples.last().is_none_or(|last| (last.left, last.leased) != (left, leased)) {
                moved = Instant::now();
            }
            samples.push(sample);
            if left == 0 && leased == 0 {
                return Ok(samples);
            }
            for daemon in &mut *daemons {
                if let Some(status) = daemon.exited() {
                    bail!("a daemon ended ({status}) with {left} jobs left:\n{}", log_of(daemon));
                }
            }
            if moved.elapsed() > STALL_MAX {
                let logs: Vec<String> = daemons.iter().map(log_of).collect();
                bail!("{left} jobs are left and nothing moves:\n{}", logs.join("\n"));
            }
            tokio::time::sleep(self.look_every).await;
        }
    }

    /// Waits until the daemon serves: it has done a job that was pushed for this.
    pub(crate) async fn wait_until_served(&self, daemon: &mut Daemon) -> anyhow::Result<()> {
        self.push("warm-up", 1, 0, |_| Due::Now).await?;
        self.watch(daemon).await.map(drop)
    }

    async fn look(
        &self,
        connection: &mut ConnectionManager,
        started: Instant,
    ) -> anyhow::Result<Sample> {
        let (live, leased, (s, us)): (u64, u64, (u64, u64)) = redis::pipe()
            .cmd("HLEN")
            .arg(self.key("jobs"))
            .cmd("ZCARD")
            .arg(self.key("unack"))
            .cmd("TIME")
            .query_async(connection)
            .await?;
        let left = live.saturating_sub(self.standing);
        Ok(Sample { at: started.elapsed(), redis_us: s * 1_000_000 + us, left, leased })
    }

    /// Fails unless nothing of any job is left, in any key, but the jobs that stay.
    pub(crate) async fn ensure_clean(&self) -> anyhow::Result<()> {
        let mut connection = self.queue.redis();
        for (count, stage) in [("HLEN", "jobs"), ("ZCARD", "pending")] {
            let key = self.key(stage);
            let found: u64 = redis::cmd(count).arg(&key).query_async(&mut connection).await?;
            let standing = self.standing;
            ensure!(found == standing, "{key} holds {found} jobs after every ack, not {standing}");
        }
        for stage in OTHER_STAGES {
            let key = self.key(stage);
            let found: u64 = redis::cmd("EXISTS").arg(&key).query_async(&mut connection).await?;
            ensure!(found == 0, "{key} holds something after every job was acked");
        }
        Ok(())
    }

    /// What Redis has been asked so far.
    pub(crate) async fn load(&self) -> anyhow::Result<Load> {
        Load::of(&mut self.queue.redis()).await
    }

    /// What Redis has been asked since `before`, without the looks and this question.
    pub(crate) async fn load_since(&self, before: Load, looks: usize) -> anyhow::Result<Load> {
        Ok(self.load().await?.since(before, looks as u64, LOOK_COMMANDS))
    }

    /// Redis' clock, ms since the epoch.
    pub(crate) async fn now_ms(&self) -> anyhow::Result<u64> {
        let (s, us): (u64, u64) = redis::cmd("TIME").query_async(&mut self.queue.redis()).await?;
        Ok(s * 1_000 + us / 1_000)
    }

    pub(crate) fn key(&self, stage: &str) -> String {
        format!("duebox:{{{TOPIC}}}:{stage}")
    }
}

/// Jobs named `{name}-{n}`, each due as `due` says of its number.
pub(crate) fn new_jobs(
    name: &str,
    count: u64,
    payload_len: u64,
    due: impl Fn(u64) -> Due,
) -> anyhow::Result<Vec<NewJob>> {
    let payload = Bytes::from("x".repeat(usize::try_from(payload_len)?));
    let job = |number| {
        let (id, payload) = (JobId::new(format!("{name}-{number:08}"))?, payload.clone());
        anyhow::Ok(NewJob { id, due: due(number), payload, options: Options::default() })
    };
    (0..count).map(job).collect()
}

/// Pushes jobs and checks that all were taken.
pub(crate) async fn push_to(
    queue: &Queue,
    topic: &TopicName,
    jobs: &[NewJob],
) -> anyhow::Result<()> {
    for batch in jobs.chunks(10_000) {
        let pushed = queue.push(topic, batch, IfExists::Reject).await?;
        ensure!(pushed.iter().all(|word| *word == Pushed::Pushed), "a push was refused");
    }
    Ok(())
}

fn log_of(daemon: &Daemon) -> String {
    let lines = daemon.lines();
    let last: Vec<&str> = lines.iter().rev().take(20).rev().map(|line| line.text()).collect();
    last.join("\n")
}
