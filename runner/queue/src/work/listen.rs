//! A subscription to wake-ups and to the control channel, and the watch over shards that wait for plain pushes.
//!
//! Redis publishes a wake-up when a push makes a topic's earliest due time earlier. A push by plain commands publishes
//! nothing: for a shard that is watched, Redis reports the next change. Messages are lost while the connection is down. The
//! listener reports that, and its owner then looks at every topic.

use duebox_job::Shard;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::keys::Keys;
use crate::wire::script::PEEK;
use crate::wire::subscription::{Message, Subscription};

/// What a listener received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A job of this shard falls due earlier than was known.
    WakeUp(Shard),
    /// These shards have changed since [`ShardWatch::begin`]: they are not watched any more.
    Changed(Vec<Shard>),
    /// A message to all daemons.
    Control(String),
    /// The connection is gone, and wake-ups with it, or Redis was emptied: listen again, and look at every topic.
    Lost,
}

/// A subscription to the wake-ups of every topic, or of some shards.
pub struct Listener {
    source: Source,
    keys: Keys,
    /// Redis reports changes of keys over this subscription.
    is_tracking: bool,
}

/// Makes Redis report changes of shards to a listener.
#[derive(Clone)]
pub struct ShardWatch {
    connection: MultiplexedConnection,
    keys: Keys,
}

enum Source {
    Server(Subscription),
    /// Wake-ups at any server of a cluster, the control channel at one.
    Cluster(Subscription, Subscription),
    /// What a simulation publishes: channel and text.
    Simulated(BoxStream<'static, (String, String)>),
}

impl Queue {
    /// Subscribes to the wake-ups of every topic, and to the control channel.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen(&self) -> Result<Listener, QueueError> {
        if let Some(transport) = self.connection.transport() {
            let messages = transport.subscribe().await.map_err(QueueError::of_redis)?;
            return Ok(Listener::new(Source::Simulated(messages), &self.keys));
        }
        let mut subscription = Subscription::open(&self.connection.subscription_settings()).await?;
        subscription.psubscribe(self.keys.wake_pattern()).await?;
        let control_channel = self.keys.control_channel();
        let Some(settings) = self.connection.control_settings() else {
            subscription.subscribe(control_channel).await?;
            let is_tracking = subscription.track().await?;
            let listener = Listener::new(Source::Server(subscription), &self.keys);
            return Ok(Listener { is_tracking, ..listener });
        };
        let mut control = Subscription::open(&settings).await?;
        control.subscribe(control_channel).await?;
        Ok(Listener::new(Source::Cluster(subscription, control), &self.keys))
    }

    /// Subscribes to the wake-ups of some shards; at least one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen_to(&self, shards: &[Shard]) -> Result<Listener, QueueError> {
        let mut subscription = Subscription::open(&self.connection.subscription_settings()).await?;
        let channels: Vec<String> =
            shards.iter().map(|shard| self.keys.of(shard).key("wake")).collect();
        subscription.subscribe(channels).await?;
        Ok(Listener::new(Source::Server(subscription), &self.keys))
    }
}

impl Listener {
    fn new(source: Source, keys: &Keys) -> Self {
        Self { source, keys: keys.clone(), is_tracking: false }
    }

    /// The watch whose changes this listener receives. None in a cluster, where the keys lie on several servers, and
    /// where the server or the permissions of the user do not allow `CLIENT TRACKING`.
    pub fn watch(&self) -> Option<ShardWatch> {
        match &self.source {
            Source::Server(subscription) if self.is_tracking => {
                Some(ShardWatch { connection: subscription.connection(), keys: self.keys.clone() })
            }
            _ => None,
        }
    }

    /// Waits for the next notification.
    pub async fn next(&mut self) -> Notification {
        loop {
            let (channel, text) = match self.source.next().await {
                None | Some(Message::AllChanged) => return Notification::Lost,
                Some(Message::Changed(keys)) => {
                    return Notification::Changed(self.shards_of(&keys));
                }
                Some(Message::Published(channel, text)) => (channel, text),
            };
            if channel == self.keys.control_channel() {
                if let Some(text) = text {
                    return Notification::Control(text);
                }
            } else if let Some(shard) = self.keys.shard_of_channel(&channel) {
                return Notification::WakeUp(shard);
            }
        }
    }

    fn shards_of(&self, keys: &[String]) -> Vec<Shard> {
        let mut shards: Vec<Shard> =
            keys.iter().filter_map(|key| self.keys.shard_of_key(key)).collect();
        shards.dedup();
        shards
    }
}

impl ShardWatch {
    /// From now on the listener hears of the next change of what [`Queue::peek`] reads in any of these shards, once for
    /// each shard or more often.
    ///
    /// # Errors
    /// [`QueueError`] if Redis refused or did not reply within [`REPLY_MAX`](crate::REPLY_MAX), or if the listener is
    /// gone.
    pub async fn begin(&self, shards: &[Shard]) -> Result<(), QueueError> {
        // Redis remembers the keys that a command names, whether they exist or not. As long as these stay as they are,
        // only time changes what a look finds.
        let mut read = redis::cmd("EXISTS");
        read.arg(self.keys.of_each(shards, PEEK.key_names()));
        self.ask(&read).await
    }

    /// Whether the connection still carries replies.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub async fn check(&self) -> Result<(), QueueError> {
        self.ask(&redis::cmd("PING")).await
    }

    async fn ask(&self, question: &Cmd) -> Result<(), QueueError> {
        let reply = self.connection.clone().send_packed_command(question).await;
        reply.and_then(Value::extract_error).map(drop).map_err(QueueError::of_redis)
    }
}

impl Source {
    async fn next(&mut self) -> Option<Message> {
        match self {
            Self::Server(subscription) => subscription.next().await,
            Self::Cluster(wake_ups, control) => tokio::select! {
                message = wake_ups.next() => message,
                message = control.next() => message,
            },
            Self::Simulated(messages) => {
                let (channel, text) = messages.next().await?;
                Some(Message::Published(channel, Some(text)))
            }
        }
    }
}
