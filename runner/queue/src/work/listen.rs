//! Listening for the wake-up of a sleeping runner: a push that is due before what it waits for; and for
//! orders.
//!
//! A wake-up may be lost while the connection is away; whoever listens is told when it is back, and
//! looks for itself.

use duebox_job::TopicName;
use futures_util::StreamExt;
use redis::aio::PubSub;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::keys::Keys;

/// What a listener heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// A job of this topic falls due earlier than was known.
    Topic(TopicName),
    /// Somebody tells all daemons this.
    Order(String),
    /// The connection is gone, and wake-ups with it: listen anew, and look at every topic.
    Lost,
}

/// A subscription to the wake-ups of every topic, or of some.
pub struct WakeListener {
    subscription: PubSub,
    keys: Keys,
}

impl Queue {
    /// Subscribes to the wake-ups of every topic, and to orders.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen(&self) -> Result<WakeListener, QueueError> {
        let client = self.connection.settings().client()?;
        let mut subscription = client.get_async_pubsub().await?;
        subscription.psubscribe(self.keys.wake_pattern()).await?;
        subscription.subscribe(self.keys.orders_channel()).await?;
        Ok(WakeListener { subscription, keys: self.keys.clone() })
    }

    /// Subscribes to the wake-ups of some topics; at least one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis cannot be reached or refuses.
    pub async fn listen_to(&self, topics: &[TopicName]) -> Result<WakeListener, QueueError> {
        let client = self.connection.settings().client()?;
        let mut subscription = client.get_async_pubsub().await?;
        let channels: Vec<String> =
            topics.iter().map(|topic| self.keys.of(topic).key("wake")).collect();
        subscription.subscribe(channels).await?;
        Ok(WakeListener { subscription, keys: self.keys.clone() })
    }
}

impl WakeListener {
    /// Waits for the next wake-up.
    pub async fn next(&mut self) -> Wake {
        loop {
            let Some(message) = self.subscription.on_message().next().await else {
                return Wake::Lost;
            };
            let channel = message.get_channel_name();
            if channel == self.keys.orders_channel() {
                // What is no text is no order.
                if let Ok(order) = message.get_payload() {
                    return Wake::Order(order);
                }
            } else if let Some(topic) = self.keys.topic_of_channel(channel) {
                return Wake::Topic(topic);
            }
        }
    }
}
