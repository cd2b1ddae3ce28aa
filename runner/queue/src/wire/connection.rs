//! The connection to Redis: one, multiplexed. A task of its own reconnects as soon as it closes, whether
//! or not it is used.
//!
//! Every wait is bounded. A command without an answer within [`ANSWER_MAX`] has failed, and it is
//! unknown whether Redis carried it out. Commands that were not sent are sent over the next connection.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, Value};
use tokio::sync::watch;

use crate::error::QueueError;
use crate::wire::latency::LatencyStats;
use crate::wire::link::{ANSWER_MAX, Failed, Link, OpenLink};

/// The longest wait for the first connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a further connection.
const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// The first wait before another try to connect, and the least time between two connections.
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// The longest wait before another try to connect.
const RETRY_MAX: Duration = Duration::from_millis(250);
/// How often the same commands are sent at most, each time over another connection.
const TRIES_MAX: usize = 8;

/// How long the server may be silent, or leave data unacknowledged, before the connection is dropped.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Interval of keepalive probes on a silent connection.
const PEER_ASK_EVERY: Duration = Duration::from_secs(3);

/// The address of Redis and the login.
#[derive(Clone)]
pub struct ConnectionSettings {
    /// `redis://host:port/db` or `unix:///path/to.sock`.
    pub url: String,
    /// The password; it replaces one in the URL.
    pub password: Option<String>,
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("url", &self.public_url())
            .finish_non_exhaustive()
    }
}

impl ConnectionSettings {
    /// The settings for an address without a separate password.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), password: None }
    }

    /// The address without what stands before its `@`, so that it can be logged.
    pub fn public_url(&self) -> String {
        match (self.url.find("://"), self.url.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}…{}", &self.url[..scheme + 3], &self.url[at..])
            }
            _ => self.url.clone(),
        }
    }

    pub(crate) fn client(&self) -> Result<Client, QueueError> {
        Client::open(self.info()?).map_err(|error| self.malformed(&error))
    }

    fn malformed(&self, error: &RedisError) -> QueueError {
        QueueError::Address { url: self.public_url(), reason: error.to_string() }
    }

    fn refused(&self, error: &RedisError) -> QueueError {
        let (url, reason) = (self.public_url(), error.to_string());
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
                QueueError::Login { url, reason }
            }
            _ => QueueError::Unreachable { url, reason },
        }
    }

    fn info(&self) -> Result<ConnectionInfo, QueueError> {
        let info =
            self.url.as_str().into_connection_info().map_err(|error| self.malformed(&error))?;
        let mut login = info.redis_settings().clone();
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        Ok(info.set_redis_settings(login).set_tcp_settings(tcp_settings()))
    }
}

/// Sends without delay, and notices a vanished server within seconds.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(PEER_SILENCE_MAX).with_interval(PEER_ASK_EVERY);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(PEER_SILENCE_MAX);
    settings
}

/// What the commands of one call became.
pub(crate) struct Answers {
    /// One for each command.
    pub(crate) values: Vec<Value>,
    /// They were sent more than once: an earlier try may have been carried out.
    pub(crate) is_repeated: bool,
}

/// When commands without an answer are sent again over the next connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// If Redis cannot have received them.
    Unsent,
    /// Also if they may have been carried out: doing so twice has the effect of doing so once.
    Always,
}

/// The connection as the task that keeps it sees it.
enum State {
    Up(Link),
    /// It was lost; the next one is being made.
    Connecting,
    /// The last try to connect failed.
    Down(String),
}

#[derive(Clone)]
pub(crate) struct Connection {
    state: watch::Receiver<State>,
    settings: Arc<ConnectionSettings>,
    latency: Arc<LatencyStats>,
}

impl Connection {
    pub(crate) async fn open(settings: &ConnectionSettings) -> Result<Self, QueueError> {
        let info = settings.info()?;
        let refused = |error: RedisError| settings.refused(&error);
        let mut open = connect(&info, 0, CONNECT_MAX).await.map_err(refused)?;
        // A server that needs a password refuses the first command, not the connection.
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        for answer in open.link.send(&ping, 0..1).await.map_err(|failed| refused(failed.error))? {
            if let Value::ServerError(error) = answer {
                return Err(refused(RedisError::from(error)));
            }
        }
        let (sender, state) = watch::channel(State::Up(open.link.clone()));
        tokio::spawn(keep(info, open, sender));
        Ok(Self { state, settings: Arc::new(settings.clone()), latency: Arc::default() })
    }

    /// Sends commands in one write; returns a value or an error for each.
    pub(crate) async fn send(
        &self,
        commands: &Pipeline,
        repeat: Repeat,
    ) -> Result<Answers, QueueError> {
        self.send_for(commands, 0..commands.len(), repeat).await
    }

    /// Sends commands in one write; returns these of the answers. A transaction has one answer more for
    /// each command, and one for its start.
    async fn send_for(
        &self,
        commands: &Pipeline,
        wanted: Range<usize>,
        repeat: Repeat,
    ) -> Result<Answers, QueueError> {
        let mut is_repeated = false;
        let mut lost = None;
        for tried in 1.. {
            let mut link = self.link(lost).await?;
            let sent_at = Instant::now();
            let answers = link.send(commands, wanted.clone()).await;
            self.latency.saw(sent_at.elapsed(), answers.is_ok());
            let Failed { error, is_closed, is_unsent } = match answers {
                Ok(values) if values.len() == wanted.len() => {
                    return Ok(Answers { values, is_repeated });
                }
                Ok(values) => {
                    let (had, sent) = (values.len(), wanted.len());
                    return Err(QueueError::Answer(format!("{had} answers to {sent} commands")));
                }
                Err(failed) => failed,
            };
            let may_repeat = is_unsent || (is_closed && repeat == Repeat::Always);
            if !may_repeat || tried == TRIES_MAX {
                return Err(QueueError::of_redis(error));
            }
            is_repeated |= !is_unsent;
            lost = Some(link.number);
        }
        Err(QueueError::NoAnswer("no connection".to_owned()))
    }

    /// The current link, or the next one if `lost` is the number of the current one. Without one it waits for
    /// the next try to connect.
    async fn link(&self, lost: Option<u64>) -> Result<Link, QueueError> {
        if lost.is_none()
            && let State::Up(link) = &*self.state.borrow()
        {
            return Ok(link.clone());
        }
        let mut state = self.state.clone();
        let is_decided = |state: &State| match state {
            State::Up(link) => lost != Some(link.number),
            State::Connecting => false,
            State::Down(_) => true,
        };
        let no_connection = || QueueError::NoAnswer("no connection".to_owned());
        let is_down = matches!(&*state.borrow_and_update(), State::Down(_));
        let decide = async {
            if is_down {
                state.changed().await?;
            }
            state.wait_for(is_decided).await
        };
        let decided = tokio::time::timeout(ANSWER_MAX, decide).await;
        let decided = decided.ok().and_then(Result::ok).ok_or_else(no_connection)?;
        match &*decided {
            State::Up(link) => Ok(link.clone()),
            State::Down(reason) => Err(QueueError::NoAnswer(format!("cannot connect: {reason}"))),
            State::Connecting => Err(no_connection()),
        }
    }

    /// Waits until the connection was lost and made again; at once if that has happened since the last
    /// call. A connection whose task has ended is never made again.
    pub(crate) async fn reconnected(&self, known: &mut u64) {
        let mut state = self.state.clone();
        let is_new = |state: &State| matches!(state, State::Up(link) if link.number != *known);
        let number = match state.wait_for(is_new).await.as_deref() {
            Ok(State::Up(link)) => Some(link.number),
            _ => None,
        };
        match number {
            Some(number) => *known = number,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn latency_stats(&self) -> &Arc<LatencyStats> {
        &self.latency
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }
}

/// Keeps the connection while it is used: makes the next one as soon as one closes.
async fn keep(info: ConnectionInfo, mut open: OpenLink, state: watch::Sender<State>) {
    let work = async {
        loop {
            let opened_at = Instant::now();
            open.closed().await;
            state.send_replace(State::Connecting);
            tokio::time::sleep(RETRY_FIRST.saturating_sub(opened_at.elapsed())).await;
            let mut wait = RETRY_FIRST;
            let number = open.link.number + 1;
            open = loop {
                match connect(&info, number, RECONNECT_MAX).await {
                    Ok(open) => break open,
                    Err(error) => state.send_replace(State::Down(error.to_string())),
                };
                tokio::time::sleep(wait.mul_f64(0.75 + 0.5 * fastrand::f64())).await;
                wait = (wait * 2).min(RETRY_MAX);
            };
            state.send_replace(State::Up(open.link.clone()));
        }
    };
    tokio::select! {
        () = work => {}
        () = state.closed() => {}
    }
}

async fn connect(
    info: &ConnectionInfo,
    number: u64,
    within: Duration,
) -> Result<OpenLink, RedisError> {
    match tokio::time::timeout(within, OpenLink::open(info, number)).await {
        Ok(opened) => opened,
        Err(elapsed) => Err(RedisError::from(std::io::Error::from(elapsed))),
    }
}

/// The connection for commands of the caller's own.
#[cfg(feature = "redis-connection")]
impl redis::aio::ConnectionLike for Connection {
    fn req_packed_command<'a>(
        &'a mut self,
        command: &'a redis::Cmd,
    ) -> redis::RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut commands = Pipeline::with_capacity(1);
            commands.add_command(command.clone());
            let mut values = self.req_packed_commands(&commands, 0, 1).await?;
            Ok(values.pop().unwrap_or(Value::Nil))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> redis::RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let answers = self.send_for(commands, offset..offset + count, Repeat::Unsent).await;
            let away = |error: QueueError| std::io::Error::other(error.to_string());
            Ok(answers.map_err(away)?.values)
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = |url: &str| ConnectionSettings { url: url.into(), password: None };
        assert_eq!(settings("redis://u:secret@h:1/0").public_url(), "redis://…@h:1/0");
        assert_eq!(settings("redis://h:1").public_url(), "redis://h:1");
        assert!(!format!("{:?}", settings("redis://:secret@h")).contains("secret"));
    }
}
