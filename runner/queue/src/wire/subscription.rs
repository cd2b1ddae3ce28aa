//! A subscription to channels of one server, over a connection of its own. It can also report changes of the keys that
//! were read over this connection, once for each key and read (client tracking of Redis).
//!
//! At most [`WAITING_MAX`] messages wait to be taken. With one more the subscription ends, as if the connection were lost.
//! Texts that are too long to be meant for a daemon are not kept.

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, ToRedisArgs, Value};
use tokio::sync::mpsc;

use crate::error::QueueError;
use crate::wire::abort_on_drop::AbortOnDrop;
use crate::wire::link::REPLY_MAX;
use crate::wire::login::login;
use crate::wire::reply::text;
use crate::wire::settings::ConnectionSettings;

/// Messages that wait: more than a burst of wake-ups of 10,000 topics.
const WAITING_MAX: usize = 16_384;
/// The longest text that is kept, in bytes.
const TEXT_MAX: usize = 8 << 10;

pub(crate) struct Subscription {
    connection: MultiplexedConnection,
    messages: mpsc::Receiver<Message>,
    _driver: AbortOnDrop,
}

/// What a server tells a subscriber.
pub(crate) enum Message {
    /// A channel and the text, if that is UTF-8 and at most [`TEXT_MAX`] long.
    Published(String, Option<String>),
    /// These keys have changed since they were read.
    Changed(Vec<String>),
    /// Any key may have changed: the database was flushed.
    AllChanged,
}

impl Subscription {
    pub(crate) async fn open(settings: &ConnectionSettings) -> Result<Self, QueueError> {
        let open = login(settings, REPLY_MAX, async |login, stream| {
            let login = login.clone().set_protocol(ProtocolVersion::RESP3);
            let (sender, messages) = mpsc::channel(WAITING_MAX);
            let config = AsyncConnectionConfig::new().set_response_timeout(Some(REPLY_MAX));
            let config = config.set_push_sender(pass_on(sender));
            let (connection, driver) =
                MultiplexedConnection::new_with_config(&login, stream, config).await?;
            Ok(Self { connection, messages, _driver: AbortOnDrop(tokio::spawn(driver)) })
        });
        Ok(open.await?.begun)
    }

    pub(crate) async fn subscribe(&mut self, channels: impl ToRedisArgs) -> Result<(), QueueError> {
        self.connection.subscribe(channels).await.map_err(QueueError::of_redis)
    }

    pub(crate) async fn psubscribe(&mut self, pattern: impl ToRedisArgs) -> Result<(), QueueError> {
        self.connection.psubscribe(pattern).await.map_err(QueueError::of_redis)
    }

    /// From now on, reports changes of keys that were read over this connection. False if the server refuses that, to
    /// this user or at all.
    pub(crate) async fn track(&mut self) -> Result<bool, QueueError> {
        let mut track = redis::cmd("CLIENT");
        track.arg("TRACKING").arg("ON");
        let reply = self.connection.send_packed_command(&track).await;
        match reply.map_err(QueueError::of_redis)? {
            Value::ServerError(_) => Ok(false),
            _ => Ok(true),
        }
    }

    /// The connection, for commands over it.
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    /// Waits for the next message; `None` if the connection is gone.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        self.messages.recv().await
    }
}

/// Passes messages on until one finds no room.
fn pass_on(sender: mpsc::Sender<Message>) -> impl Fn(PushInfo) -> Result<(), ()> {
    let sender = Mutex::new(Some(sender));
    move |push| {
        let Some(message) = Message::of(push) else { return Ok(()) };
        let mut sender = sender.lock();
        if sender.as_ref().is_some_and(|sender| sender.try_send(message).is_ok()) {
            return Ok(());
        }
        *sender = None;
        Err(())
    }
}

impl Message {
    /// `None` if the subscriber need not know.
    fn of(push: PushInfo) -> Option<Self> {
        let published = |channel: &Value, message: &Value| {
            let message = text(message).ok().filter(|text| text.len() <= TEXT_MAX);
            Some(Self::Published(text(channel).ok()?.to_owned(), message.map(str::to_owned)))
        };
        match (push.kind, &push.data[..]) {
            (PushKind::Message, [channel, message]) => published(channel, message),
            (PushKind::PMessage, [_, channel, message]) => published(channel, message),
            (PushKind::Invalidate, [Value::Array(keys)]) => {
                let keys = keys.iter().filter_map(|key| Some(text(key).ok()?.to_owned()));
                Some(Self::Changed(keys.collect()))
            }
            (PushKind::Invalidate, _) => Some(Self::AllChanged),
            _ => None,
        }
    }
}
