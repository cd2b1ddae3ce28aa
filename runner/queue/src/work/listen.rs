//! A subscription to wake-ups and to the control channel.
//!
//! Redis publishes a wake-up when a push makes a topic's earliest due time earlier. Messages are lost
//! while the connection is down. The listener reports that, and its owner then looks at every topic.

use duebox_job::Shard;
use futures_util::StreamExt;
use redis::aio::PubSub;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::keys::Keys;

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
    subscription: PubSub,
    keys: Keys,
}

impl Queue {
    /// Subscribes to the wake-ups of every topic, and to the control channel.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen(&self) -> Result<Listener, QueueError> {
        let client = self.connection.settings().client()?;
        let mut subscription = client.get_async_pubsub().await.map_err(QueueError::of_redis)?;
        subscription.psubscribe(self.keys.wake_pattern()).await.map_err(QueueError::of_redis)?;
        subscription.subscribe(self.keys.control_channel()).await.map_err(QueueError::of_redis)?;
        Ok(Listener { subscription, keys: self.keys.clone() })
    }

    /// Subscribes to the wake-ups of some shards; at least one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen_to(&self, shards: &[Shard]) -> Result<Listener, QueueError> {
        let client = self.connection.settings().client()?;
        let mut subscription = client.get_async_pubsub().await.map_err(QueueError::of_redis)?;
        let channels: Vec<String> =
            shards.iter().map(|shard| self.keys.of(shard).key("wake")).collect();
        subscription.subscribe(channels).await.map_err(QueueError::of_redis)?;
        Ok(Listener { subscription, keys: self.keys.clone() })
    }
}

impl Listener {
    /// Waits for the next notification.
    pub async fn next(&mut self) -> Notification {
        loop {
            let Some(message) = self.subscription.on_message().next().await else {
                return Notification::Lost;
            };
            let channel = message.get_channel_name();
            if channel == self.keys.control_channel() {
                // A message that is not UTF-8 is ignored.
                if let Ok(text) = message.get_payload() {
                    return Notification::Control(text);
                }
            } else if let Some(topic) = self.keys.shard_of_channel(channel) {
                return Notification::WakeUp(topic);
            }
        }
    }
}
