//! The parts of a row: Redis, the witness server, daemons and load. A row makes faults, and the scene judges.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use duebox_harness::{Proxy, RedisServer};
use fastrand::Rng;
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::fleet::Fleet;
use crate::judge::{Policy, Verdict, judge};
use crate::ledger::Ledger;
use crate::load::{Addresses, Load};
use crate::plan::{CHILDREN, KEYED, PULLED, TICKS, WORK};
use crate::queue_state::QueueState;
use crate::witness::Witness;

/// How long the load goes on before the first fault and after the last.
const CALM: Duration = Duration::from_millis(1_500);
/// How long a row may take to work off its jobs after its faults.
const DRAIN_MAX: Duration = Duration::from_secs(60);

/// The short form runs where other work runs too: there work may go on so many times later.
const SHORT_PATIENCE: u32 = 3;

/// What all rows share.
pub(crate) struct Context {
    pub(crate) runtime: Handle,
    pub(crate) seed: u64,
    /// The short form, with fewer faults.
    pub(crate) is_short: bool,
    pub(crate) witness: PathBuf,
    pub(crate) cache: PathBuf,
}

impl Context {
    /// The number of faults of a row.
    pub(crate) fn times(&self, full: usize, short: usize) -> usize {
        if self.is_short { short } else { full }
    }
}

/// What a row chooses.
pub(crate) struct Setting {
    /// Arguments and environment of redis-server.
    pub(crate) redis: Vec<String>,
    pub(crate) redis_env: Vec<(&'static str, String)>,
    pub(crate) is_proxied: bool,
    pub(crate) runners: usize,
    pub(crate) lease_ms: u64,
    pub(crate) has_load: bool,
    pub(crate) policy: Policy,
}

impl Default for Setting {
    fn default() -> Self {
        let policy = Policy::default();
        let (redis, redis_env, is_proxied) = (Vec::new(), Vec::new(), false);
        Self { redis, redis_env, is_proxied, runners: 2, lease_ms: 2_000, has_load: true, policy }
    }
}

/// The arguments of a Redis that keeps every write.
pub(crate) fn append_only(fsync: &str) -> Vec<String> {
    ["--appendonly", "yes", "--appendfsync", fsync].map(str::to_owned).to_vec()
}

/// A running scene.
pub(crate) struct Scene {
    pub(crate) rng: Rng,
    pub(crate) redis: RedisServer,
    /// Where the queue is: `redis`, unless the row chose another server.
    pub(crate) queue_url: String,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) fleet: Fleet,
    load: Option<Load>,
    witness: Witness,
    policy: Policy,
    memory_kib: u64,
    pub(crate) dir: TempDir,
}

impl Scene {
    /// Starts all parts and waits until jobs run.
    pub(crate) fn start(context: &Context, setting: Setting) -> anyhow::Result<Self> {
        let mut scene = Self::prepare(context, &setting)?;
        for _ in 0..setting.runners {
            scene.fleet.add(&[])?;
        }
        if setting.has_load {
            scene.start_load(context)?;
        }
        scene.mark_memory();
        Ok(scene)
    }

    /// Starts all parts but daemons and load.
    pub(crate) fn prepare(context: &Context, setting: &Setting) -> anyhow::Result<Self> {
        let args: Vec<&str> = setting.redis.iter().map(String::as_str).collect();
        let redis = RedisServer::with_env(&args, &setting.redis_env);
        let proxy = setting.is_proxied.then(|| Proxy::start(redis.port()));
        let queue_url = redis.url();
        let url = proxy.as_ref().map_or_else(|| redis.url(), Proxy::url);
        let dir = tempfile::Builder::new().prefix("duebox-faults-").tempdir()?;
        let ledger = Arc::<Ledger>::default();
        let witness = Witness::start(&context.runtime, &ledger)?;
        let manifest = dir.path().join("duebox.toml");
        let text = manifest_text(context, &url, setting.lease_ms, &witness.origin())?;
        std::fs::write(&manifest, text).context("cannot write the manifest")?;
        let addresses = Addresses::default();
        let fleet = Fleet::new(&manifest, &ledger, &addresses);
        let (rng, mut policy) = (Rng::with_seed(context.seed), setting.policy.clone());
        if context.is_short {
            policy.resume_max *= SHORT_PATIENCE;
        }
        let (load, memory_kib) = (None, 0);
        Ok(Self {
            rng,
            redis,
            queue_url,
            proxy,
            ledger,
            fleet,
            load,
            witness,
            policy,
            memory_kib,
            dir,
        })
    }

    /// Starts producers and consumers, and waits a moment.
    pub(crate) fn start_load(&mut self, context: &Context) -> anyhow::Result<()> {
        let (addresses, url) = (self.fleet.addresses(), self.queue_url.clone());
        let load = Load::start(&context.runtime, &self.ledger, &addresses, &url, &mut self.rng)?;
        self.load = Some(load);
        std::thread::sleep(CALM);
        Ok(())
    }

    /// Takes the daemons' memory now as the one before the faults.
    pub(crate) fn mark_memory(&mut self) {
        self.memory_kib = self.fleet.memory_kib();
    }

    /// Lets the load run for a random time in ms.
    pub(crate) fn pause(&mut self, ms: std::ops::Range<u64>) {
        std::thread::sleep(Duration::from_millis(self.rng.u64(ms)));
    }

    pub(crate) fn proxy(&self) -> anyhow::Result<&Proxy> {
        self.proxy.as_ref().context("this row has no proxy")
    }

    /// Replaces text of the manifest, or appends to it if the text is not in it.
    pub(crate) fn change_manifest(&self, old: &str, new: &str) -> anyhow::Result<()> {
        let path = self.dir.path().join("duebox.toml");
        let text = std::fs::read_to_string(&path).context("cannot read the manifest")?;
        anyhow::ensure!(text.contains(old), "the manifest does not contain {old}");
        let text = if old.is_empty() { text + new } else { text.replace(old, new) };
        std::fs::write(&path, text).context("cannot write the manifest")
    }

    /// Ends the load, waits until all is worked off, stops the daemons, and judges.
    pub(crate) fn finish(mut self) -> anyhow::Result<Verdict> {
        std::thread::sleep(CALM);
        if let Some(load) = &mut self.load {
            load.end_producers();
        }
        let began = Instant::now();
        // A Redis that is not there yet has not been worked off.
        while QueueState::live(&self.queue_url).map_or(true, |live| live > 0)
            && began.elapsed() < DRAIN_MAX
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        if let Some(load) = &mut self.load {
            load.end_consumers();
        }
        let memory_kib = (self.memory_kib, self.fleet.memory_kib());
        // A managed Redis ends with its daemon.
        let state = QueueState::read(&self.queue_url)?;
        let wrong = self.fleet.stop()?;
        let mut verdict = judge(&self.ledger.books(), &state, &self.policy, memory_kib);
        verdict.problems.extend(wrong);
        drop(self.witness);
        Ok(verdict)
    }
}

fn manifest_text(
    context: &Context,
    redis: &str,
    lease_ms: u64,
    witness: &str,
) -> anyhow::Result<String> {
    let cache = context.cache.display();
    let mut text = format!(
        "[redis]\nurl = \"{redis}\"\npoll = \"200ms\"\nmanaged = {{ dir = \"./redis\", fsync = \"always\" }}\n\
         [runner]\nlease = \"{lease_ms}ms\"\ncache = \"{cache}\"\nmax_jobs = 64\n\
         [server]\nlisten = \"127.0.0.1:0\"\n\
         [defaults]\nmax_crashes = 60\nmax_attempts = 8\nbackoff = \"100ms\"\n"
    );
    for topic in [WORK, CHILDREN, KEYED, TICKS] {
        text += &handler_topic(topic, &context.witness, witness)?;
    }
    writeln!(text, "[topics.{PULLED}]")?;
    writeln!(
        text,
        "[[schedules]]\nname = \"every\"\ntopic = \"{TICKS}\"\nevery = \"1s\"\nmissed = \"all\""
    )?;
    Ok(text)
}

fn handler_topic(topic: &str, handler: &Path, witness: &str) -> anyhow::Result<String> {
    let mut text =
        format!("[topics.{topic}]\nhandler = \"{}\"\nconcurrency = 16\n", handler.display());
    if topic == KEYED {
        text += "per_key_concurrency = 1\n";
    }
    writeln!(
        text,
        "[topics.{topic}.sandbox]\nkv = true\npush = [\"{CHILDREN}\"]\nhttp = [\"{witness}\"]\n\
         http_private = [\"127.0.0.1\"]\nconfig = {{ url = \"{witness}/run\", by = \"${{INCARNATION}}\" }}"
    )?;
    Ok(text)
}
