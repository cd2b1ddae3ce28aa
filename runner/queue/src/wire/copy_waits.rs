//! Waits until replicas, or a disk, have what a connection has written.
//!
//! Redis answers nothing else on a connection while it waits. So one wait at a time is under way on each; it covers
//! everything that the connection was answered before, and the callers that come meanwhile share the next one. Each
//! wait is bounded, and short after one that ended without the copies.
//!
//! `WAIT` covers the writes of its own connection only. A call whose effect is older than the connection, such as a
//! push that is repeated after a lost reply, may write nothing. So a write of a key of its own goes before each wait:
//! what Redis did earlier is in every copy that has this write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, RedisError};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use crate::wire::durability::{Copies, Waited};
use crate::wire::stream::Traffic;

/// How long waits are short after one that ended without the copies.
const SHORT_FOR: Duration = Duration::from_secs(5);
/// The part of the longest wait that a short one lasts.
const SHORT_PART: u32 = 8;
/// The place of the first key of a script in its call.
const FIRST_KEY: usize = 3;
/// How much longer than its bound a wait may take to be answered.
const LATE_MAX: Duration = Duration::from_secs(1);

/// How long the written key stays, in ms.
const KEPT_MS: u64 = 60_000;

/// The waits of one connection.
pub(crate) struct CopyWaits {
    copies: Copies,
    /// How many waits were asked for.
    asked: AtomicU64,
    last: Mutex<LastWait>,
}

/// The wait that ended last.
#[derive(Default)]
struct LastWait {
    /// How many waits were asked for when it began.
    covers: u64,
    /// `None` if it got no answer.
    ended: Option<Waited>,
    /// When the waits began to end without the copies.
    short_since: Option<Instant>,
}

impl CopyWaits {
    pub(crate) fn new(copies: Copies) -> Self {
        Self { copies, asked: AtomicU64::new(0), last: Mutex::default() }
    }

    /// Waits for the copies of what this server did before. It writes `key`. An error says that the wait was not
    /// answered.
    pub(crate) async fn wait(
        &self,
        connection: &mut MultiplexedConnection,
        traffic: &Traffic,
        key: &[u8],
    ) -> Result<Waited, RedisError> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = self.last.lock().await;
        if last.covers >= own {
            return last.ended.clone().ok_or_else(unanswered);
        }
        let covers = self.asked.load(Ordering::SeqCst);
        let within = last.bound(self.copies.longest_wait());
        let asked = {
            let _blocked = traffic.block();
            let mut wait = Pipeline::with_capacity(2);
            wait.cmd("SET").arg(key).arg(1).arg("PX").arg(KEPT_MS);
            wait.add_command(self.copies.wait(within));
            timeout(within + LATE_MAX, connection.send_packed_commands(&wait, 0, 2)).await
        };
        let ended = match asked {
            Ok(Ok(replies)) => Ok(self.copies.read(&replies, within)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(unanswered()),
        };
        last.covers = covers;
        last.ended = ended.as_ref().ok().cloned();
        last.note(&ended);
        ended
    }
}

impl LastWait {
    /// How long the next wait lasts. One in a while is long again, because copies may just be slow.
    fn bound(&self, longest: Duration) -> Duration {
        match self.short_since {
            Some(since) if since.elapsed() < SHORT_FOR => longest / SHORT_PART,
            _ => longest,
        }
    }

    fn note(&mut self, ended: &Result<Waited, RedisError>) {
        let is_over = self.short_since.is_some_and(|since| since.elapsed() >= SHORT_FOR);
        match ended {
            Ok(Waited::Kept) => self.short_since = None,
            _ if self.short_since.is_none() || is_over => self.short_since = Some(Instant::now()),
            _ => {}
        }
    }
}

/// The key that is written before a wait for these commands: it has the slot of the first script that they call.
pub(crate) fn key_of(commands: &Pipeline) -> Option<Vec<u8>> {
    commands.cmd_iter().find_map(|command| {
        let key = is_script(command).then(|| command.args_iter().nth(FIRST_KEY))??;
        let Arg::Simple(key) = key else { return None };
        let tag = key.iter().position(|byte| *byte == b'}')?;
        Some([&key[..=tag], b":copies"].concat())
    })
}

/// Whether a command calls a script, which may change jobs.
fn is_script(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(name)) if name.starts_with(b"EVAL"))
}

fn unanswered() -> RedisError {
    let text = "the wait for copies of the write was not answered";
    std::io::Error::new(std::io::ErrorKind::TimedOut, text).into()
}

/// How waits for copies ended, on all connections that share their settings.
#[derive(Debug, Default)]
pub struct CopyStats {
    kept: AtomicU64,
    short: AtomicU64,
    missing: watch::Sender<Option<Arc<str>>>,
}

impl CopyStats {
    pub(crate) fn saw(&self, missing: Option<&str>) {
        let counter = if missing.is_some() { &self.short } else { &self.kept };
        counter.fetch_add(1, Ordering::Relaxed);
        self.missing.send_if_modified(|known| {
            let changes = known.is_some() != missing.is_some();
            if changes {
                *known = missing.map(Arc::from);
            }
            changes
        });
    }

    /// Calls whose writes had the copies that the durability demands.
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Calls whose writes did not have them in time.
    pub fn short(&self) -> u64 {
        self.short.load(Ordering::Relaxed)
    }

    /// What the last write lacked, and each change between nothing and something.
    pub fn missing(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.missing.subscribe()
    }
}
