//! Runs the demo: starts the shop and the daemon, pushes jobs, kills the daemon and starts another,
//! rebuilds a handler, and audits the result.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{ConnectionSettings, Depths, IfExists, NewJob, Pushed, Queue};
use duebox_shop::Shop;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::audit::{Audit, Effects, RedisState};
use crate::daemon::{Daemon, Line};
use crate::display::{Display, print, short};
use crate::ledger::Ledger;
use crate::plan::{self, PlannedJob, Topic};
use crate::queue_redis::QueueRedis;
use crate::rebuild::Rebuild;
use crate::{Args, DemoEnd, TIME_MAX};

const TICK: Duration = Duration::from_millis(100);
/// How long the daemon's Redis may take to start.
const START_MAX: Duration = Duration::from_secs(40);
/// Maximum number of orders pushed during the rebuild, one per tick.
const LATE_ORDERS_MAX: u64 = 900;
/// Slows some requests at the shop before the daemon is killed, so that jobs are running then. The
/// shop processes them and delays the response.
const SLOW: &str = r#"{"on": "/", "times": 8, "fault": {"slow": {"ms": 1500}}}"#;
/// Maximum number of ticks to wait for the last log lines after the last job.
const BEHIND_MAX: u32 = 30;

/// Runs the demo from start to end.
///
/// # Errors
/// What failed, with the remedy if there is one.
pub(crate) async fn run(args: &Args) -> anyhow::Result<DemoEnd> {
    for (path, remedy) in [
        (&args.duebox, "run: cargo build --release -p duebox"),
        (&args.manifest, "run it at the top of the repository, or pass --manifest"),
        (&args.build, "run it at the top of the repository, or pass --build"),
    ] {
        ensure!(path.exists(), "{} does not exist; {remedy}", path.display());
    }
    let private = Permissions::from_mode(0o700);
    let data = tempfile::Builder::new().prefix("duebox-demo-").permissions(private).tempdir();
    let data = data.context("cannot create a directory for the demo's Redis")?;
    let shop = open_shop(args).await?;
    let environment = Environment { args, data: data.path(), shop: &shop };
    let mut daemon = environment.start_daemon()?;
    let mut ledger = Ledger::default();
    let mut display = Display::new();
    let finished = tokio::select! {
        finished = timeout(
            TIME_MAX,
            demo(&environment, &mut daemon, &mut ledger, &mut display),
        ) => Some(finished),
        requested = stop_requested() => requested.map(|()| None)?,
    };
    display.leave();
    let stopped = daemon.stop().await;
    stop_orphaned_redis(data.path()).await;
    let audit = match finished {
        None => {
            stopped?;
            print("interrupted; the daemon and its Redis have stopped");
            return Ok(DemoEnd::Interrupted);
        }
        Some(Ok(audit)) => audit?,
        Some(Err(_)) => bail!(
            "timed out after {} s: the last verdict of {} of {} jobs is missing",
            TIME_MAX.as_secs(),
            ledger.open(),
            ledger.len()
        ),
    };
    print(&format!("\n{audit}"));
    let status = stopped?;
    ensure!(status.success(), "the daemon did not stop cleanly: {status}");
    Ok(if audit.is_complete() { DemoEnd::Accounted } else { DemoEnd::Unaccounted })
}

/// What a daemon needs to start.
struct Environment<'a> {
    args: &'a Args,
    data: &'a Path,
    shop: &'a Shop,
}

impl Environment<'_> {
    fn start_daemon(&self) -> anyhow::Result<Daemon> {
        Daemon::start(self.args, self.data, &self.shop.origin())
    }
}

/// Starts the shop with the token that the manifest passes to the handlers.
async fn open_shop(args: &Args) -> anyhow::Result<Shop> {
    let path = args.manifest.with_file_name("shop.token");
    let token = std::fs::read_to_string(&path);
    let token =
        token.with_context(|| format!("cannot read the shop's token, {}", path.display()))?;
    Shop::open(0, Some(token.trim().to_owned())).await
}

async fn demo(
    environment: &Environment<'_>,
    daemon: &mut Daemon,
    ledger: &mut Ledger,
    display: &mut Display,
) -> anyhow::Result<Audit> {
    display.print_event(&format!("the shop's ledger is at {}/ledger", environment.shop.origin()));
    let redis = QueueRedis::of(&environment.args.manifest, environment.data)?;
    display.print_event(&format!("starting the daemon, {}", redis.describe()));
    let queue = connect(&redis, daemon, display).await?;
    let topics = topics()?;
    let mut demo = DemoRun {
        environment,
        daemon,
        ledger,
        display,
        queue,
        topics,
        rebuild: None,
        module_replaced: false,
        slowed: false,
        killed: false,
    };
    let plan = plan::jobs(environment.args.jobs, demo.now_ms().await?);
    demo.display.print_event(&format!("pushing {} jobs, due within 10 s", plan.len()));
    demo.push(&plan).await?;
    demo.run().await?;
    demo.display.print_event(
        "all jobs have ended; auditing Redis, the shop's ledger and the handlers' log lines",
    );
    let effects = Effects::read(environment.shop.books().ledger());
    Audit::make(demo.ledger, &mut demo.queue.redis(), &effects).await
}

/// A killed daemon leaves its Redis to the next daemon; here no next one follows.
async fn stop_orphaned_redis(data: &Path) {
    let url = format!("redis+unix://{}/redis.sock", data.display());
    let Ok(client) = redis::Client::open(url) else { return };
    // After a clean stop Redis no longer listens.
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return };
    let ended: redis::RedisResult<()> =
        redis::cmd("SHUTDOWN").arg("NOSAVE").query_async(&mut connection).await;
    if ended.is_err() {
        // Redis closes the connection instead of replying.
    }
}

/// Waits for Ctrl-C, SIGTERM, or the terminal to be closed.
async fn stop_requested() -> anyhow::Result<()> {
    let listen = |kind| signal(kind).context("cannot listen for signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

fn topics() -> anyhow::Result<Vec<TopicName>> {
    Topic::ALL.iter().map(|topic| Ok(TopicName::new(topic.name())?)).collect()
}

/// Waits for the daemon's Redis.
async fn connect(
    redis: &QueueRedis,
    daemon: &mut Daemon,
    display: &Display,
) -> anyhow::Result<Queue> {
    let settings = ConnectionSettings::new(redis.url());
    let deadline = Instant::now() + START_MAX;
    loop {
        if redis.may_listen()
            && let Ok(queue) = Queue::connect(&settings, "duebox").await
        {
            return Ok(queue);
        }
        ensure!(Instant::now() < deadline, "the daemon's Redis did not start within {START_MAX:?}");
        tokio::select! {
            line = daemon.line() => match line {
                Some(Line::Problem(text)) => display.print_event(&text),
                Some(_) => {}
                None => bail!("the daemon exited before its Redis started"),
            },
            () = sleep(TICK) => {}
        }
    }
}

/// The running demo.
struct DemoRun<'a> {
    environment: &'a Environment<'a>,
    daemon: &'a mut Daemon,
    ledger: &'a mut Ledger,
    display: &'a mut Display,
    queue: Queue,
    topics: Vec<TopicName>,
    rebuild: Option<Rebuild>,
    /// The new module has logged a verdict.
    module_replaced: bool,
    /// Some requests at the shop are slowed.
    slowed: bool,
    /// The first daemon was killed and another started.
    killed: bool,
}

impl DemoRun<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut late_orders, mut behind) = (0, 0);
        loop {
            tokio::select! {
                line = self.daemon.line() => {
                    self.handle_line(line.context("the daemon exited during the demo")?)?;
                    continue;
                }
                built = done(&mut self.rebuild) => {
                    built?;
                    self.display.print_event("the new module of order.close is in place");
                    continue;
                }
                _ = tick.tick() => {}
            }
            let depths = self.queue.depths(&self.topics).await?;
            self.display.draw(&depths, self.ledger);
            let is_begun = self.ledger.open() * 4 < self.ledger.len() * 3;
            if is_begun && !self.slowed {
                self.slowed = true;
                self.environment.shop.inject_fault(SLOW)?;
            } else if self.slowed && !self.killed && depths.iter().any(|depths| depths.unack > 0) {
                self.kill_daemon().await?;
            } else if self.rebuild.is_some()
                && !self.module_replaced
                && late_orders < LATE_ORDERS_MAX
            {
                // The new module must get jobs, however long its build takes.
                let order = plan::late_order(late_orders, self.now_ms().await?);
                self.push(&[order]).await?;
                late_orders += 1;
            } else if self.module_replaced && depths.iter().all(is_still) {
                behind += 1;
                if self.ledger.open() == 0 || behind > BEHIND_MAX {
                    return Ok(());
                }
            }
        }
    }

    /// Kills the daemon while jobs run, and starts another on the same Redis.
    async fn kill_daemon(&mut self) -> anyhow::Result<()> {
        self.killed = true;
        self.daemon.kill().await?;
        while let Some(line) = self.daemon.line().await {
            self.handle_line(line)?;
        }
        let mut running = 0;
        for topic in Topic::ALL {
            let state = RedisState::read(topic, &mut self.queue.redis()).await?;
            for id in self.ledger.ids(topic) {
                self.ledger.record_crash(&id, state.settled(&id), state.is_running(&id));
                running += usize::from(state.is_running(&id));
            }
        }
        self.display.print_event(&format!(
            "killed the daemon (SIGKILL) with {running} jobs under lease; starting another"
        ));
        *self.daemon = self.environment.start_daemon()?;
        Ok(())
    }

    fn handle_line(&mut self, line: Line) -> anyhow::Result<()> {
        let (job_id, attempt, digest, at_us, message) = match line {
            Line::Problem(text) => {
                self.display.print_event(&text);
                return Ok(());
            }
            Line::Other => return Ok(()),
            Line::Handler { job_id, attempt, digest, at_us, message } => {
                (job_id, attempt, digest, at_us, message)
            }
        };
        self.ledger.record_line(&job_id, attempt, &digest, at_us, &message);
        match &self.rebuild {
            None if message.contains(" edition=") => {
                let rebuild = Rebuild::start(self.environment.args)?;
                self.display.print_event(&format!(
                    "order.close runs on module {}; rebuilding it as edition {}",
                    short(&digest),
                    rebuild.edition
                ));
                self.rebuild = Some(rebuild);
            }
            Some(rebuild) if !self.module_replaced && rebuild.is_from_new_module(&message) => {
                self.module_replaced = true;
                self.display.print_event(&format!(
                    "order.close now runs on module {}, edition {}, without a restart",
                    short(&digest),
                    rebuild.edition
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds jobs to the ledger and to the shop, and pushes them.
    async fn push(&mut self, jobs: &[PlannedJob]) -> anyhow::Result<()> {
        for job in jobs {
            self.ledger.record_push(job);
            job.place(&mut self.environment.shop.books());
        }
        for (topic, name) in Topic::ALL.iter().zip(&self.topics) {
            let mut batch = Vec::new();
            for job in jobs.iter().filter(|job| job.topic == *topic) {
                batch.push(NewJob {
                    id: JobId::new(job.id.clone())?,
                    due: job.due(),
                    payload: Bytes::from(job.payload.clone()),
                    options: Options::default(),
                });
            }
            let pushed = self.queue.push(name, &batch, IfExists::Reject).await?;
            ensure!(
                pushed.iter().all(|verdict| *verdict == Pushed::Pushed),
                "{name} refused a push"
            );
        }
        Ok(())
    }

    /// Redis' clock, which decides when jobs are due.
    async fn now_ms(&self) -> anyhow::Result<u64> {
        let depths = self.queue.depths(&self.topics).await?;
        Ok(depths.first().context("Redis returned no time")?.now_ms)
    }
}

/// Whether no job is waiting or running.
fn is_still(depths: &Depths) -> bool {
    depths.pending + depths.ready + depths.unack + depths.retry == 0
}

/// Waits for the build, if one was started.
async fn done(rebuild: &mut Option<Rebuild>) -> anyhow::Result<()> {
    match rebuild {
        Some(rebuild) => rebuild.done().await,
        None => std::future::pending().await,
    }
}
