//! One connection to Redis, from its login until it closes.

use std::future::pending;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::QueueError;
use crate::wire::abort_on_drop::AbortOnDrop;
use crate::wire::address::{NodeAddress, Sentinels};
use crate::wire::copy_waits::{self, CopyWaits};
use crate::wire::durability::Waited;
use crate::wire::half_open;
use crate::wire::layout::check_layout;
use crate::wire::login::{LoggedIn, login};
use crate::wire::reply::text;
use crate::wire::sentinel;
use crate::wire::settings::{ConnectionSettings, is_refused_login};
use crate::wire::stream::{TlsSession, Traffic};
use crate::wire::transport::Transport;

/// The longest wait for a reply: shorter than a lease, longer than a fork of Redis takes.
pub const REPLY_MAX: Duration = Duration::from_secs(5);

/// With these ends the name of a key has a slot near the first and near the last one of a cluster. No key has them.
const OUTER_SLOTS: [&str; 2] = ["{ru}", "{fv}"];

/// How long a link may receive nothing before it is probed.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// A way to send commands over one connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    /// Counts the links of one [`Connection`](super::connection::Connection).
    pub(crate) number: u64,
    pub(crate) opened_at: Instant,
    carrier: Carrier,
}

/// What carries the commands.
#[derive(Clone)]
enum Carrier {
    Redis(RedisLink),
    /// A simulation, which never closes.
    Simulated(Arc<dyn Transport>),
}

#[derive(Clone)]
struct RedisLink {
    connection: MultiplexedConnection,
    traffic: Arc<Traffic>,
    /// Notified when the server refuses a write because it is a replica; `None` if no sentinel would name another one.
    demoted: Option<Arc<Notify>>,
    /// Waits for copies of what was written; `None` if the primary alone is enough.
    copies: Option<Arc<CopyWaits>>,
}

/// A link and the task that moves its bytes; dropping it closes the connection.
pub(crate) struct OpenLink {
    pub(crate) link: Link,
    /// Redis has a version of the layout.
    pub(crate) has_layout: bool,
    driver: AbortOnDrop,
    /// The server that was reached.
    node: NodeAddress,
    /// The sentinels that named it, if it is one of an address with sentinels.
    sentinels: Option<Sentinels>,
}

/// What a link leads to.
pub(crate) struct Endpoint {
    pub(crate) settings: Arc<ConnectionSettings>,
    /// The key with the version of the layout.
    pub(crate) layout_key: String,
}

/// Why a link gave no reply.
pub(crate) struct Failed {
    pub(crate) error: RedisError,
    /// The connection is closed.
    pub(crate) is_closed: bool,
    /// Redis cannot have received anything of the commands.
    pub(crate) is_unsent: bool,
}

impl Link {
    /// A link of a simulation.
    pub(crate) fn over(transport: Arc<dyn Transport>) -> Self {
        Self { number: 0, opened_at: Instant::now(), carrier: Carrier::Simulated(transport) }
    }

    /// What a simulation put in the place of Redis.
    pub(crate) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        match &self.carrier {
            Carrier::Redis(_) => None,
            Carrier::Simulated(transport) => Some(transport),
        }
    }

    /// What the connection agreed on, if it uses TLS.
    pub(crate) fn tls_session(&self) -> Option<&TlsSession> {
        match &self.carrier {
            Carrier::Redis(link) => link.traffic.session(),
            Carrier::Simulated(_) => None,
        }
    }

    /// Sends commands in one write.
    pub(crate) async fn send(
        &mut self,
        commands: &Pipeline,
        wanted: Range<usize>,
    ) -> Result<Vec<Value>, Failed> {
        match &mut self.carrier {
            Carrier::Redis(link) => link.send(commands, wanted).await,
            Carrier::Simulated(transport) => {
                let replies = transport.send(commands).await.map_err(|error| Failed {
                    is_closed: error.is_unrecoverable_error(),
                    is_unsent: false,
                    error,
                })?;
                Ok(replies.into_iter().skip(wanted.start).take(wanted.len()).collect())
            }
        }
    }

    /// Waits until what these commands did, which were answered over this link, has the copies that the settings
    /// demand; returns what is missing.
    pub(crate) async fn wait_for_copies(
        &mut self,
        commands: &Pipeline,
    ) -> Result<Option<String>, Failed> {
        match &mut self.carrier {
            Carrier::Redis(link) => link.wait_for_copies(commands).await,
            Carrier::Simulated(_) => Ok(None),
        }
    }

    /// The bytes that have arrived so far.
    fn bytes_read(&self) -> u64 {
        match &self.carrier {
            Carrier::Redis(link) => link.traffic.read(),
            Carrier::Simulated(_) => 0,
        }
    }
}

impl RedisLink {
    async fn send(
        &mut self,
        commands: &Pipeline,
        wanted: Range<usize>,
    ) -> Result<Vec<Value>, Failed> {
        let Self { connection, traffic, demoted, .. } = self;
        let _awaited = traffic.await_reply();
        let before = traffic.written();
        let values = connection.send_packed_commands(commands, wanted.start, wanted.len()).await;
        let values = values.map_err(|error| Failed {
            is_closed: error.is_unrecoverable_error(),
            // Commands of other callers count too: then it is unknown which of them were written.
            is_unsent: error.is_connection_dropped() && traffic.written() == before,
            error,
        })?;
        match demoted {
            Some(demoted) if values.iter().any(is_refused_by_replica) => {
                Err(is_replica(demoted, values.iter().all(is_refused_by_replica)))
            }
            _ => Ok(values),
        }
    }

    async fn wait_for_copies(&mut self, commands: &Pipeline) -> Result<Option<String>, Failed> {
        let Self { connection, traffic, demoted, copies } = self;
        let Some(copies) = copies else { return Ok(None) };
        let Some(key) = copy_waits::key_of(commands) else { return Ok(None) };
        let waited = copies.wait(connection, traffic, &key).await;
        let waited = waited.map_err(|error| Failed {
            is_closed: error.is_unrecoverable_error(),
            is_unsent: false,
            error,
        })?;
        match (waited, demoted) {
            (Waited::Kept, _) => Ok(None),
            (Waited::Short(missing), _) => Ok(Some(missing)),
            (Waited::Demoted, Some(demoted)) => Err(is_replica(demoted, false)),
            (Waited::Demoted, None) => Ok(Some("the server has become a replica".to_owned())),
        }
    }
}

/// The failure of a call whose server is a replica by now; sentinels name another one.
fn is_replica(demoted: &Notify, is_unsent: bool) -> Failed {
    demoted.notify_one();
    let text = "the server is not the primary any more";
    let error = io::Error::new(io::ErrorKind::ConnectionReset, text).into();
    Failed { error, is_closed: true, is_unsent }
}

fn is_refused_by_replica(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::ReadOnly))
}

impl OpenLink {
    /// Connects and logs in, with the settings as they are on disk now. Fails if the queue has a layout that
    /// this program does not know.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        number: u64,
        within: Duration,
    ) -> Result<Self, QueueError> {
        let settings = &*endpoint.settings;
        let sentinels = settings.sentinels()?;
        let has_sentinels = sentinels.is_some();
        let open = login(settings, within, async |login, stream| {
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(REPLY_MAX));
            let (mut connection, driver) =
                MultiplexedConnection::new_with_config(login, stream, config).await?;
            let driver = AbortOnDrop(tokio::spawn(driver));
            // A server that needs a password refuses the first command, not the connection. One whose disk
            // fails refuses the PING too, and still serves much else: enough to go on, not to begin.
            let ping = connection.send_packed_command(&redis::cmd("PING")).await;
            match ping.and_then(Value::extract_error) {
                Err(error) if number == 0 || error.code().is_none() || is_refused_login(&error) => {
                    return Err(error);
                }
                _ => {}
            }
            // Sentinels name the old primary until they have agreed on the new one.
            let role = match has_sentinels {
                false => None,
                true => Some(connection.send_packed_command(&redis::cmd("ROLE")).await?),
            };
            Ok((connection, driver, role.map(Value::extract_error).transpose()?))
        });
        let LoggedIn { begun: (mut connection, driver, role), traffic, node } = open.await?;
        if role.is_some_and(|role| !is_primary(&role)) {
            return Err(settings.no_primary(&node));
        }
        let asks_slots = number == 0 && settings.is_of_one_server();
        let has_layout = has_layout(&mut connection, endpoint, asks_slots).await?;
        let demoted = has_sentinels.then(Arc::default);
        let copies = settings.copies().map(CopyWaits::new).map(Arc::new);
        let carrier = Carrier::Redis(RedisLink { connection, traffic, demoted, copies });
        let link = Link { number, opened_at: Instant::now(), carrier };
        Ok(Self { link, has_layout, driver, node, sentinels })
    }

    /// Waits until the connection closes, is half open, or does not answer a probe any more, or until another
    /// server is the primary. Probes also keep an idle connection alive.
    pub(crate) async fn wait_until_closed(&mut self, settings: &ConnectionSettings) {
        let Carrier::Redis(link) = &self.link.carrier else { return pending().await };
        let demoted = async {
            match &link.demoted {
                Some(demoted) => demoted.notified().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = &mut self.driver.0 => {}
            () = wait_for_silence(self.link.clone()) => {}
            () = half_open::wait_until_half_open(&link.traffic, settings) => {}
            () = demoted => {}
            () = sentinel::wait_for_new_primary(self.sentinels.as_ref(), settings, &self.node) => {}
        }
    }
}

fn is_primary(role: &Value) -> bool {
    matches!(role, Value::Array(fields) if fields.first().is_some_and(|role| text(role) == Ok("master")))
}

/// Whether the queue has a version of its layout. Fails if this program does not know the version, or if Redis
/// still loads its data. A user who may not read it goes on without. With `asks_slots` it also fails if the server is
/// one of a cluster and has a part of the slots: then it redirects a read of the others.
async fn has_layout(
    connection: &mut MultiplexedConnection,
    endpoint: &Endpoint,
    asks_slots: bool,
) -> Result<bool, QueueError> {
    let key = &endpoint.layout_key;
    let mut reads = Pipeline::with_capacity(3);
    reads.cmd("GET").arg(key);
    if asks_slots {
        for tag in OUTER_SLOTS {
            reads.cmd("GET").arg(format!("{key}{tag}"));
        }
    }
    let replies = connection.send_packed_commands(&reads, 0, reads.len()).await;
    let replies = replies.map_err(QueueError::of_redis)?;
    if asks_slots && replies.iter().any(is_moved) {
        return Err(QueueError::IsClusterNode { url: endpoint.settings.public_url() });
    }
    match replies.into_iter().next().unwrap_or(Value::Nil).extract_error() {
        Ok(stored) => {
            check_layout(&stored)?;
            Ok(stored != Value::Nil)
        }
        Err(error) if error.code().is_none() || error.code() == Some("LOADING") => {
            Err(QueueError::of_redis(error))
        }
        Err(_) => Ok(true),
    }
}

fn is_moved(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::Moved))
}

/// Returns when the server has been silent and answers no probe.
async fn wait_for_silence(mut link: Link) {
    loop {
        let before = link.bytes_read();
        tokio::time::sleep(SILENCE_MAX).await;
        if link.bytes_read() != before {
            continue;
        }
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        if link.send(&ping, 0..ping.len()).await.is_err() {
            return;
        }
    }
}
