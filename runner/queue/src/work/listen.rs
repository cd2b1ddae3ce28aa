//! A subscription to wake-ups and to the control channel.
//!
//! Redis publishes a wake-up when a push makes a topic's earliest due time earlier. Messages are lost
//! while the connection is down. The listener reports that, and its owner then looks at every topic.

use duebox_job::Shard;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use redis::aio::PubSub;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::keys::Keys;
use crate::wire::login;

/// What a listener received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// A job of this shard falls due earlier than was known.
    WakeUp(Shard),
    /// A message to all daemons.
    Control(String),
    /// The connection is gone, and wake-ups with it: listen again, and look at every topic.
    Lost,
}

/// A subscription to the wake-ups of every topic, or of some shards.
pub struct Listener {
    subscription: Subscription,
    keys: Keys,
}

enum Subscription {
    Redis(Box<PubSub>),
    /// Wake-ups at any server of a cluster, the control channel at one.
    Cluster(Box<PubSub>, Box<PubSub>),
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
            return Ok(Listener::new(Subscription::Simulated(messages), &self.keys));
        }
        let mut subscription =
            login::open_subscription(&self.connection.subscription_settings()).await?;
        subscription.psubscribe(self.keys.wake_pattern()).await.map_err(QueueError::of_redis)?;
        let control_channel = self.keys.control_channel();
        let Some(settings) = self.connection.control_settings() else {
            subscription.subscribe(control_channel).await.map_err(QueueError::of_redis)?;
            return Ok(Listener::new(Subscription::Redis(Box::new(subscription)), &self.keys));
        };
        let mut control = login::open_subscription(&settings).await?;
        control.subscribe(control_channel).await.map_err(QueueError::of_redis)?;
        let both = Subscription::Cluster(Box::new(subscription), Box::new(control));
        Ok(Listener::new(both, &self.keys))
    }

    /// Subscribes to the wake-ups of some shards; at least one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen_to(&self, shards: &[Shard]) -> Result<Listener, QueueError> {
        let mut subscription =
            login::open_subscription(&self.connection.subscription_settings()).await?;
        let channels: Vec<String> =
            shards.iter().map(|shard| self.keys.of(shard).key("wake")).collect();
        subscription.subscribe(channels).await.map_err(QueueError::of_redis)?;
        Ok(Listener::new(Subscription::Redis(Box::new(subscription)), &self.keys))
    }
}

impl Listener {
    fn new(subscription: Subscription, keys: &Keys) -> Self {
        Self { subscription, keys: keys.clone() }
    }

    /// Waits for the next notification.
    pub async fn next(&mut self) -> Notification {
        loop {
            let Some((channel, text)) = self.subscription.next().await else {
                return Notification::Lost;
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
}

impl Subscription {
    /// The channel of the next message and its text; no text if it is not UTF-8.
    async fn next(&mut self) -> Option<(String, Option<String>)> {
        match self {
            Self::Redis(subscription) => {
                let message = subscription.on_message().next().await?;
                Some((message.get_channel_name().to_owned(), message.get_payload().ok()))
            }
            Self::Cluster(wake_ups, control) => {
                let (mut wake_ups, mut control) = (wake_ups.on_message(), control.on_message());
                let message = tokio::select! {
                    message = wake_ups.next() => message?,
                    message = control.next() => message?,
                };
                Some((message.get_channel_name().to_owned(), message.get_payload().ok()))
            }
            Self::Simulated(messages) => {
                let (channel, text) = messages.next().await?;
                Some((channel, Some(text)))
            }
        }
    }
}
