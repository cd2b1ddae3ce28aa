//! The play itself: shop and daemon up, jobs pushed, the daemon killed and another started, a handler
//! rebuilt, everything done, everything counted.

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

use crate::audit::{Audit, Effects, Found};
use crate::board::{Board, print, short};
use crate::daemon::{Daemon, Line};
use crate::ledger::Ledger;
use crate::plan::{self, Planned, Topic};
use crate::rebuild::Rebuild;
use crate::{Args, Ended, TIME_MAX};

const TICK: Duration = Duration::from_millis(100);
/// How long the daemon may take to have its Redis up.
const START_MAX: Duration = Duration::from_secs(40);
/// Orders pushed while the handler is rebuilt, one a tick, at most.
const LATE_ORDERS_MAX: u64 = 900;
/// What the shop does to some requests before the daemon is killed, so that jobs are under way then: it
/// does what they ask, and keeps them waiting for the answer.
const SLOW: &str = r#"{"on": "/", "times": 8, "fault": {"slow": {"ms": 1500}}}"#;
/// Ticks that the last log lines may be behind the jobs themselves.
const BEHIND_MAX: u32 = 30;

/// Plays the demo from the daemon's start to its end.
///
/// # Errors
/// What stood in the way, with the remedy where there is one.
pub(crate) async fn play(args: &Args) -> anyhow::Result<Ended> {
    for (path, remedy) in [
        (&args.duebox, "run: cargo build --release -p duebox"),
        (&args.manifest, "go to the top of the repository, or name it with --manifest"),
        (&args.build, "go to the top of the repository, or name it with --build"),
    ] {
        ensure!(path.exists(), "there is no {}; {remedy}", path.display());
    }
    let private = Permissions::from_mode(0o700);
    let data = tempfile::Builder::new().prefix("duebox-demo-").permissions(private).tempdir();
    let data = data.context("cannot make a directory for the demo's Redis")?;
    let shop = open_shop(args).await?;
    let stage = Stage { args, data: data.path(), shop: &shop };
    let mut daemon = stage.start_daemon()?;
    let mut ledger = Ledger::default();
    let mut board = Board::new();
    let acted = tokio::select! {
        acted = timeout(TIME_MAX, act(&stage, &mut daemon, &mut ledger, &mut board)) => Some(acted),
        told = told_to_end() => told.map(|()| None)?,
    };
    board.leave();
    let stopped = daemon.stop().await;
    end_orphan(data.path()).await;
    let audit = match acted {
        None => {
            stopped?;
            print("interrupted; the daemon has stopped and put its Redis away");
            return Ok(Ended::Interrupted);
        }
        Some(Ok(audit)) => audit?,
        Some(Err(_)) => bail!(
            "not over after {} s: {} of {} jobs have not heard their last word",
            TIME_MAX.as_secs(),
            ledger.open(),
            ledger.len()
        ),
    };
    print(&format!("\n{audit}"));
    let status = stopped?;
    ensure!(status.success(), "the daemon did not stop cleanly: {status}");
    Ok(if audit.is_complete() { Ended::Accounted } else { Ended::Unaccounted })
}

/// What the play stands on.
struct Stage<'a> {
    args: &'a Args,
    data: &'a Path,
    shop: &'a Shop,
}

impl Stage<'_> {
    fn start_daemon(&self) -> anyhow::Result<Daemon> {
        Daemon::start(self.args, self.data, &self.shop.origin())
    }
}

/// Opens the shop, which wants the token that the manifest gives the handlers.
async fn open_shop(args: &Args) -> anyhow::Result<Shop> {
    let path = args.manifest.with_file_name("shop.token");
    let token = std::fs::read_to_string(&path);
    let token =
        token.with_context(|| format!("cannot read the shop's token, {}", path.display()))?;
    Shop::open(0, Some(token.trim().to_owned())).await
}

async fn act(
    stage: &Stage<'_>,
    daemon: &mut Daemon,
    ledger: &mut Ledger,
    board: &mut Board,
) -> anyhow::Result<Audit> {
    board.say(&format!("the shop is open at {}/ledger", stage.shop.origin()));
    board.say("starting the daemon, which starts a Redis of its own");
    let queue = connect(stage.data, daemon, board).await?;
    let topics = topics()?;
    let mut act = Act {
        stage,
        daemon,
        ledger,
        board,
        queue,
        topics,
        rebuild: None,
        taken_over: false,
        slowed: false,
        killed: false,
    };
    let plan = plan::jobs(stage.args.jobs, act.now_ms().await?);
    act.board.say(&format!("pushing {} jobs, due within 10 s", plan.len()));
    act.push(&plan).await?;
    act.run().await?;
    act.board
        .say("everything is done; now the account, from Redis, the shop and the handlers' lines");
    let effects = Effects::read(stage.shop.books().ledger());
    Audit::make(act.ledger, &mut act.queue.redis(), &effects).await
}

/// A daemon that was killed leaves its Redis to the next one; here there is no next one.
async fn end_orphan(data: &Path) {
    let url = format!("redis+unix://{}/redis.sock", data.display());
    let Ok(client) = redis::Client::open(url) else { return };
    // Nobody listens any more where the daemon ended in order.
    let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return };
    let ended: redis::RedisResult<()> =
        redis::cmd("SHUTDOWN").arg("NOSAVE").query_async(&mut connection).await;
    if ended.is_err() {
        // It hangs up instead of answering: that is how it says yes.
    }
}

/// Waits for Ctrl-C, for `kill`, or for the terminal to be closed.
async fn told_to_end() -> anyhow::Result<()> {
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
async fn connect(data: &Path, daemon: &mut Daemon, board: &Board) -> anyhow::Result<Queue> {
    let url = format!("redis+unix://{}/redis.sock", data.display());
    let settings = ConnectionSettings { url, password: None };
    let deadline = Instant::now() + START_MAX;
    loop {
        if data.join("redis.sock").exists()
            && let Ok(queue) = Queue::connect(&settings, "duebox").await
        {
            return Ok(queue);
        }
        ensure!(Instant::now() < deadline, "the daemon's Redis is not up after {START_MAX:?}");
        tokio::select! {
            line = daemon.line() => match line {
                Some(Line::Trouble(text)) => board.say(&text),
                Some(_) => {}
                None => bail!("the daemon ended before its Redis was up"),
            },
            () = sleep(TICK) => {}
        }
    }
}

/// The demo while jobs move.
struct Act<'a> {
    stage: &'a Stage<'a>,
    daemon: &'a mut Daemon,
    ledger: &'a mut Ledger,
    board: &'a mut Board,
    queue: Queue,
    topics: Vec<TopicName>,
    rebuild: Option<Rebuild>,
    /// The rebuilt handler has been heard.
    taken_over: bool,
    /// The shop keeps some requests waiting for their answers.
    slowed: bool,
    /// The first daemon has been killed, and another started.
    killed: bool,
}

impl Act<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut late_orders, mut behind) = (0, 0);
        loop {
            tokio::select! {
                line = self.daemon.line() => {
                    self.hear(line.context("the daemon ended in the middle of the demo")?)?;
                    continue;
                }
                built = done(&mut self.rebuild) => {
                    built?;
                    self.board.say("the new module of order.close is in its place");
                    continue;
                }
                _ = tick.tick() => {}
            }
            let depths = self.queue.depths(&self.topics).await?;
            self.board.draw(&depths, self.ledger);
            let is_begun = self.ledger.open() * 4 < self.ledger.len() * 3;
            if is_begun && !self.slowed {
                self.slowed = true;
                self.stage.shop.order_fault(SLOW)?;
            } else if self.slowed && !self.killed && depths.iter().any(|depths| depths.unack > 0) {
                self.kill_daemon().await?;
            } else if self.rebuild.is_some() && !self.taken_over && late_orders < LATE_ORDERS_MAX {
                // The new module must find work, however long its build takes.
                let order = plan::late_order(late_orders, self.now_ms().await?);
                self.push(&[order]).await?;
                late_orders += 1;
            } else if self.taken_over && depths.iter().all(is_still) {
                behind += 1;
                if self.ledger.open() == 0 || behind > BEHIND_MAX {
                    return Ok(());
                }
            }
        }
    }

    /// Kills the daemon in the middle of its work, and starts another on what it left in Redis.
    async fn kill_daemon(&mut self) -> anyhow::Result<()> {
        self.killed = true;
        self.daemon.kill().await?;
        while let Some(line) = self.daemon.line().await {
            self.hear(line)?;
        }
        let mut running = 0;
        for topic in Topic::ALL {
            let found = Found::read(topic, &mut self.queue.redis()).await?;
            for id in self.ledger.ids(topic) {
                self.ledger.broken_off(&id, found.settled(&id), found.is_running(&id));
                running += usize::from(found.is_running(&id));
            }
        }
        self.board.say(&format!(
            "killed the daemon (SIGKILL) with {running} jobs under lease; starting another"
        ));
        *self.daemon = self.stage.start_daemon()?;
        Ok(())
    }

    fn hear(&mut self, line: Line) -> anyhow::Result<()> {
        let (job_id, attempt, digest, at_us, message) = match line {
            Line::Trouble(text) => {
                self.board.say(&text);
                return Ok(());
            }
            Line::Other => return Ok(()),
            Line::Handler { job_id, attempt, digest, at_us, message } => {
                (job_id, attempt, digest, at_us, message)
            }
        };
        self.ledger.heard(&job_id, attempt, &digest, at_us, &message);
        match &self.rebuild {
            None if message.contains(" edition=") => {
                let rebuild = Rebuild::start(self.stage.args)?;
                self.board.say(&format!(
                    "order.close runs on module {}; rebuilding it as edition {} meanwhile",
                    short(&digest),
                    rebuild.edition
                ));
                self.rebuild = Some(rebuild);
            }
            Some(rebuild) if !self.taken_over && rebuild.said(&message) => {
                self.taken_over = true;
                self.board.say(&format!(
                    "order.close runs on module {}, edition {}: taken over without a restart",
                    short(&digest),
                    rebuild.edition
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes jobs into the ledger and the shop's books, and pushes them.
    async fn push(&mut self, jobs: &[Planned]) -> anyhow::Result<()> {
        for job in jobs {
            self.ledger.pushed(job);
            job.place(&mut self.stage.shop.books());
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
            ensure!(pushed.iter().all(|word| *word == Pushed::Pushed), "{name} refused a push");
        }
        Ok(())
    }

    /// Redis' clock, the only one that decides when a job is due.
    async fn now_ms(&self) -> anyhow::Result<u64> {
        let depths = self.queue.depths(&self.topics).await?;
        Ok(depths.first().context("Redis does not tell its time")?.now_ms)
    }
}

/// Nothing waits and nothing runs.
fn is_still(depths: &Depths) -> bool {
    depths.pending + depths.ready + depths.unack + depths.retry == 0
}

/// The end of the build, if one was started.
async fn done(rebuild: &mut Option<Rebuild>) -> anyhow::Result<()> {
    match rebuild {
        Some(rebuild) => rebuild.done().await,
        None => std::future::pending().await,
    }
}
