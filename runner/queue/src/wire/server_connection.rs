//! The connection to one server: one, multiplexed. A task of its own reconnects as soon as it closes, whether
//! or not it is used.
//!
//! Every wait is bounded. A command without a reply within [`REPLY_MAX`] has failed, and it is
//! unknown whether Redis carried it out. Commands that were not sent are sent over the next connection.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};
use tokio::sync::watch;

use crate::error::QueueError;
use crate::wire::clock::now;
use crate::wire::connection_task::{ConnectionTask, State};
use crate::wire::latency::LatencyStats;
use crate::wire::link::{Endpoint, Failed, Link, OpenLink, REPLY_MAX};
use crate::wire::stream::TlsSession;
use crate::wire::transport::Transport;

/// The longest wait for the first connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often the same commands are sent at most, each time over another connection.
const TRIES_MAX: usize = 8;

/// What the commands of one call became.
pub(crate) struct RawReplies {
    /// One for each command.
    pub(crate) values: Vec<Value>,
    /// They were sent more than once: an earlier try may have been carried out.
    pub(crate) is_repeated: bool,
    /// What the writes lack of the copies that were waited for.
    pub(crate) missing: Option<String>,
}

/// When commands without a reply are sent again over the next connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// If Redis cannot have received them.
    Unsent,
    /// Also if they may have been carried out: doing so twice has the effect of doing so once.
    Always,
    /// As [`Self::Always`]; and the call ends when the writes have the copies that the settings demand, or after a
    /// bounded wait.
    Durably,
}

/// Why a call got no replies.
pub(super) struct SendFailure {
    pub(super) error: QueueError,
    /// Redis cannot have received anything of it.
    pub(super) is_unsent: bool,
}

fn is_carried_out(value: &Value) -> bool {
    !matches!(value, Value::ServerError(_))
}

#[derive(Clone)]
pub(super) struct ServerConnection {
    state: watch::Receiver<State>,
    latency: Arc<LatencyStats>,
    /// The number of the first link. A later one was made again.
    first: u64,
}

impl ServerConnection {
    /// Connects at once, or fails. Also tells whether Redis has a version of the layout.
    pub(super) async fn open(
        endpoint: &Arc<Endpoint>,
        latency: &Arc<LatencyStats>,
        task: &Arc<ConnectionTask>,
    ) -> Result<(Self, bool), QueueError> {
        let open = OpenLink::open(endpoint, 0, CONNECT_MAX).await?;
        let (state, has_layout) = (State::Up(open.link.clone()), open.has_layout);
        Ok((Self::start(endpoint, latency, task, state, Some(open)), has_layout))
    }

    /// Connects in the background. Calls wait for the connection. A connection to a server that has taken the place
    /// of another one counts as made again.
    pub(super) fn begin(
        endpoint: &Arc<Endpoint>,
        latency: &Arc<LatencyStats>,
        task: &Arc<ConnectionTask>,
        is_successor: bool,
    ) -> Self {
        let first = u64::from(!is_successor);
        Self { first, ..Self::start(endpoint, latency, task, State::Connecting, None) }
    }

    fn start(
        endpoint: &Arc<Endpoint>,
        latency: &Arc<LatencyStats>,
        task: &Arc<ConnectionTask>,
        state: State,
        open: Option<OpenLink>,
    ) -> Self {
        let (sender, state) = watch::channel(state);
        let (endpoint, task) = (Arc::clone(endpoint), Arc::clone(task));
        tokio::spawn(async move { task.run(endpoint, open, sender).await });
        Self { state, latency: Arc::clone(latency), first: 0 }
    }

    /// A connection whose commands this transport carries. Nothing connects, and no task keeps it.
    pub(super) fn over(transport: Arc<dyn Transport>, latency: &Arc<LatencyStats>) -> Self {
        let (_, state) = watch::channel(State::Up(Link::over(transport)));
        Self { state, latency: Arc::clone(latency), first: 0 }
    }

    /// Sends commands in one write; returns these of the replies, each a value or an error. A transaction has one
    /// reply more for each command, and one for its start.
    pub(super) async fn send(
        &self,
        commands: &Pipeline,
        wanted: Range<usize>,
        repeat: Repeat,
    ) -> Result<RawReplies, SendFailure> {
        let mut is_repeated = false;
        let mut lost = None;
        let failed = |error, is_unsent| Err(SendFailure { error, is_unsent });
        for tried in 1.. {
            let mut link = match self.link(lost).await {
                Ok(link) => link,
                Err(error) => return failed(error, !is_repeated),
            };
            let sent_at = Instant::now();
            let replies = link.send(commands, wanted.clone()).await;
            self.latency.saw(sent_at.elapsed(), replies.is_ok());
            let Failed { error, is_closed, is_unsent } = match replies {
                Ok(values) if values.len() == wanted.len() => {
                    let waits = repeat == Repeat::Durably && values.iter().any(is_carried_out);
                    match if waits { link.wait_for_copies(commands).await } else { Ok(None) } {
                        Ok(missing) => return Ok(RawReplies { values, is_repeated, missing }),
                        Err(failed) => failed,
                    }
                }
                Ok(values) => {
                    let (had, sent) = (values.len(), wanted.len());
                    let text = format!("{had} replies to {sent} commands");
                    return failed(QueueError::BadReply(text), false);
                }
                Err(failed) => failed,
            };
            is_repeated |= !is_unsent;
            let may_repeat = is_unsent || (is_closed && repeat != Repeat::Unsent);
            if !may_repeat || tried == TRIES_MAX {
                return failed(QueueError::of_redis(error), !is_repeated);
            }
            lost = Some(link.number);
        }
        failed(QueueError::NoReply("no connection".to_owned()), !is_repeated)
    }

    /// The current link, or the next one if `lost` is the number of the current one. Without one it waits for
    /// the next try to connect.
    async fn link(&self, lost: Option<u64>) -> Result<Link, QueueError> {
        if let State::Up(link) = &*self.state.borrow()
            && (lost.is_none() || link.transport().is_some())
        {
            return Ok(link.clone());
        }
        let mut state = self.state.clone();
        let is_decided = |state: &State| match state {
            State::Up(link) => lost != Some(link.number),
            State::Connecting => false,
            State::Down(_) => true,
        };
        let no_connection = || QueueError::NoReply("no connection".to_owned());
        let is_down = matches!(&*state.borrow_and_update(), State::Down(_));
        let decide = async {
            if is_down {
                state.changed().await?;
            }
            state.wait_for(is_decided).await
        };
        let decided = tokio::time::timeout(REPLY_MAX, decide).await;
        let decided = decided.ok().and_then(Result::ok).ok_or_else(no_connection)?;
        match &*decided {
            State::Up(link) => Ok(link.clone()),
            State::Down(reason) => Err(QueueError::NoReply(format!("cannot connect: {reason}"))),
            State::Connecting => Err(no_connection()),
        }
    }

    /// Waits until the connection was lost and made again; at once if that has happened since the last
    /// call. A connection whose task has ended is never made again.
    pub(super) async fn reconnected(&self, known: &mut u64) {
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

    /// When the connection was last made again after it was lost; now, while it is lost.
    pub(super) fn reconnected_at(&self) -> Option<Instant> {
        match &*self.state.borrow() {
            State::Up(link) if link.number <= self.first => None,
            State::Up(link) => Some(link.opened_at.into_std()),
            State::Connecting | State::Down(_) => Some(now()),
        }
    }

    /// Why the last try to connect failed, while there is no connection.
    pub(super) fn failure(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Down(reason) => Some(reason.clone()),
            State::Up(_) | State::Connecting => None,
        }
    }

    /// What the current connection agreed on, if it uses TLS.
    pub(super) fn tls_session(&self) -> Option<TlsSession> {
        match &*self.state.borrow() {
            State::Up(link) => link.tls_session().cloned(),
            State::Connecting | State::Down(_) => None,
        }
    }

    /// What carries the commands in place of Redis, in a simulation.
    pub(super) fn transport(&self) -> Option<Arc<dyn Transport>> {
        match &*self.state.borrow() {
            State::Up(link) => link.transport().cloned(),
            State::Connecting | State::Down(_) => None,
        }
    }
}
