//! What every run needs: a fresh Redis with jobs in it, a manifest, a daemon, and samples of the
//! remaining jobs.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use duebox_harness::Daemon;
use duebox_job::{JobId, Options, Shard, TopicName};
use duebox_queue::{Due, IfExists, Limits, NewJob, Pushed, Queue};
use redis::aio::ConnectionLike;
use tempfile::TempDir;

use crate::redis_load::RedisLoad;
use crate::servers::{Place, Servers};

pub(crate) const TOPIC: &str = "bench";
/// Pause between two samples; one sample costs Redis a few microseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Redis commands per sample.
const POLL_COMMANDS: u64 = 3;
/// A run fails if nothing changes for this long.
const STALL_MAX: Duration = Duration::from_secs(30);
/// Keys of a topic that must not exist after every job was acked. `jobs` and `pending` are checked
/// apart.
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
pub(crate) struct Fixture {
    pub(crate) redis: Servers,
    pub(crate) queue: Queue,
    pub(crate) topic: TopicName,
    /// Jobs that stay in `pending` during the run.
    pub(crate) backlog: u64,
    /// The shards of the topic.
    shards: u32,
    /// The threads for guests of each daemon; 0 as many as there are cores.
    pub(crate) guest_threads: usize,
    /// Pause between two samples.
    pub(crate) poll_interval: Duration,
    dir: TempDir,
}

/// How a daemon serves the topic.
pub(crate) struct Binding<'a> {
    pub(crate) handler: &'a Path,
    /// Further manifest lines of the topic, such as `snapshot = true`.
    pub(crate) lines: &'a str,
    /// The daemon's `max_jobs` and the topic's `concurrency`.
    pub(crate) in_flight: u64,
    /// The manifest's `runner.log`.
    pub(crate) log: &'a str,
}

/// The number of remaining jobs at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Since the start of the run.
    pub(crate) at: Duration,
    /// Redis' clock, µs since the epoch.
    pub(crate) redis_us: u64,
    /// Without the backlog.
    pub(crate) left: u64,
    pub(crate) leased: u64,
}

impl Fixture {
    /// Starts a Redis without persistence.
    pub(crate) async fn prepare() -> anyhow::Result<Self> {
        Self::prepare_with(&[]).await
    }

    /// Starts a Redis with extra arguments, such as `--appendonly yes`.
    pub(crate) async fn prepare_with(redis_args: &[&str]) -> anyhow::Result<Self> {
        Self::prepare_at(Place::Single(redis_args)).await
    }

    /// Starts the servers of this kind.
    pub(crate) async fn prepare_at(place: Place<'_>) -> anyhow::Result<Self> {
        let redis = Servers::start(place)?;
        let queue = Queue::connect(redis.settings(), "duebox").await?;
        let topic = TopicName::new(TOPIC)?;
        let dir = tempfile::tempdir().context("cannot create a directory for the manifest")?;
        let poll_interval = POLL_INTERVAL;
        Ok(Self {
            redis,
            queue,
            topic,
            backlog: 0,
            shards: 1,
            guest_threads: 0,
            poll_interval,
            dir,
        })
    }

    /// Splits the topic into shards.
    pub(crate) async fn split(&mut self, shards: u32) -> anyhow::Result<()> {
        let limits = Limits { shards: NonZero::new(shards), ..Limits::default() };
        self.queue.configure(&self.topic, &limits).await?;
        self.shards = shards;
        Ok(())
    }

    /// Whether the first server can wait for its disk.
    pub(crate) fn waits_for_disk(&self) -> bool {
        !self.redis.first().cli(&["COMMAND", "INFO", "WAITAOF"]).is_empty()
    }

    /// Pushes jobs named `{name}-{n}`, with the due time that `due` gives for each number, and
    /// checks that all were accepted.
    pub(crate) async fn push(
        &self,
        name: &str,
        count: u64,
        payload_len: u64,
        due: impl Fn(u64) -> Due,
    ) -> anyhow::Result<()> {
        push_to(&self.queue, &self.topic, &new_jobs(name, count, payload_len, due)?).await
    }

    /// Starts a daemon that serves the topic.
    pub(crate) fn start_daemon(&self, binding: &Binding<'_>) -> anyhow::Result<Daemon> {
        let Binding { handler, lines, in_flight, log } = binding;
        let text = format!(
            "{}[topics.{TOPIC}]\nhandler = {:?}\nconcurrency = {in_flight}\nshards = {}\n{lines}\
             [topics.{TOPIC}.sandbox]\npayload = \"2MiB\"\n",
            self.manifest_head(*in_flight, log),
            handler.display().to_string(),
            self.shards,
        );
        Ok(Daemon::start(&self.write_manifest(&text)?))
    }

    /// The manifest without its topics. Compiled modules are cached in the fixture's folder.
    pub(crate) fn manifest_head(&self, max_jobs: u64, log: &str) -> String {
        format!(
            "[redis]\n{}\n[runner]\nmax_jobs = {max_jobs}\nthreads = {}\nlog = {log:?}\ncache = {:?}\n\n",
            self.redis.manifest_lines(),
            self.guest_threads,
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

    /// Samples the topic until no job is left; fails if nothing changes for `STALL_MAX`.
    pub(crate) async fn watch(&self, daemon: &mut Daemon) -> anyhow::Result<Vec<Sample>> {
        self.watch_all(std::slice::from_mut(daemon)).await
    }

    /// The same with several daemons.
    pub(crate) async fn watch_all(&self, daemons: &mut [Daemon]) -> anyhow::Result<Vec<Sample>> {
        let mut connection = self.queue.redis();
        let started = Instant::now();
        let mut samples: Vec<Sample> = Vec::new();
        let mut moved = started;
        loop {
            let sample = self.sample(&mut connection, started).await?;
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
                    bail!("a daemon exited ({status}) with {left} jobs left:\n{}", log_of(daemon));
                }
            }
            if moved.elapsed() > STALL_MAX {
                let logs: Vec<String> = daemons.iter().map(log_of).collect();
                bail!("{left} jobs are left and nothing changes:\n{}", logs.join("\n"));
            }
            tokio::time::sleep(self.poll_interval).await;
        }
    }

    /// Pushes one job and waits until the daemon has acked it.
    pub(crate) async fn wait_until_served(&self, daemon: &mut Daemon) -> anyhow::Result<()> {
        self.push("warm-up", 1, 0, |_| Due::Now).await?;
        self.watch(daemon).await.map(drop)
    }

    async fn sample(
        &self,
        connection: &mut (impl ConnectionLike + Send + Sync),
        started: Instant,
    ) -> anyhow::Result<Sample> {
        let (mut live, mut leased, mut redis_us) = (0, 0, 0);
        for shard in self.all_shards() {
            let (here, unack, (s, us)): (u64, u64, (u64, u64)) = redis::pipe()
                .cmd("HLEN")
                .arg(key_of(&shard, "jobs"))
                .cmd("ZCARD")
                .arg(key_of(&shard, "unack"))
                .cmd("TIME")
                .query_async(connection)
                .await?;
            live += here;
            leased += unack;
            redis_us = s * 1_000_000 + us;
        }
        let left = live.saturating_sub(self.backlog);
        Ok(Sample { at: started.elapsed(), redis_us, left, leased })
    }

    fn all_shards(&self) -> impl Iterator<Item = Shard> {
        (0..self.shards).map(|number| self.topic.shard(number))
    }

    /// Fails unless every key of the topic is empty except for the backlog.
    pub(crate) async fn ensure_clean(&self) -> anyhow::Result<()> {
        for shard in self.all_shards() {
            self.ensure_clean_shard(&shard).await?;
        }
        Ok(())
    }

    async fn ensure_clean_shard(&self, shard: &Shard) -> anyhow::Result<()> {
        let mut connection = self.queue.redis();
        for (count, stage) in [("HLEN", "jobs"), ("ZCARD", "pending")] {
            let key = key_of(shard, stage);
            let found: u64 = redis::cmd(count).arg(&key).query_async(&mut connection).await?;
            let backlog = self.backlog;
            ensure!(found == backlog, "{key} holds {found} jobs after the last ack, not {backlog}");
        }
        for stage in OTHER_STAGES {
            let key = key_of(shard, stage);
            let found: u64 = redis::cmd("EXISTS").arg(&key).query_async(&mut connection).await?;
            ensure!(found == 0, "{key} exists after the last ack");
        }
        Ok(())
    }

    /// What Redis was asked since it started.
    pub(crate) async fn load(&self) -> anyhow::Result<RedisLoad> {
        RedisLoad::of(&mut self.queue.redis()).await
    }

    /// What Redis was asked since `before`, without the samples and this query.
    pub(crate) async fn load_since(
        &self,
        before: RedisLoad,
        polls: usize,
    ) -> anyhow::Result<RedisLoad> {
        Ok(self.load().await?.since(before, polls as u64, POLL_COMMANDS))
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

fn key_of(shard: &Shard, stage: &str) -> String {
    format!("duebox:{{{}}}:{stage}", shard.tag())
}

/// Builds jobs named `{name}-{n}`, with the due time that `due` gives for each number.
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

/// Pushes jobs and checks that all were accepted.
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
