//! The control channel: an operator sends an order to every running daemon over Redis, and each daemon
//! replies.
//!
//! An order is published to all daemons with the same Redis and prefix. Each daemon replies into a list of
//! that order. Anyone with access to that Redis can send orders; an order can do no more than a push or a
//! changed file.

use std::time::{Duration, Instant};

use duebox_job::{JobId, TopicName};
use duebox_queue::{Queue, QueueError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest order that is accepted, in bytes.
const ORDER_MAX: usize = 4 << 10;

/// The word of the order to roll back a topic's module.
const ROLLBACK: &str = "rollback";
/// The word of the order to look at the files.
const RELOAD: &str = "reload";
/// How long to wait for replies. A daemon replies at once; compiling is not part of it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often to poll for replies.
const REPLY_POLL: Duration = Duration::from_millis(25);

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The list for the replies is named after it: a UUID.
    pub id: String,
    /// The word of the order. A daemon also replies to a word that it does not know.
    order: String,
    /// The topic that it concerns.
    topic: String,
}

/// What an order asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderKind<'a> {
    /// Serve the previous module again.
    Rollback {
        /// The topic.
        topic: &'a str,
    },
    /// Look at the files now.
    Reload {
        /// The topic that it concerns.
        topic: &'a str,
    },
    /// An order that this version does not know.
    Unknown,
}

/// The reply of one daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Answer)]
pub struct Reply {
    /// The id of the daemon.
    pub runner: String,
    /// The result of the order in this daemon.
    pub result: OrderResult,
    /// The module that serves now, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The module that no longer serves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
}

/// The result of an order in one daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Came)]
#[serde(rename_all = "snake_case")]
pub enum OrderResult {
    /// The previous module serves again.
    RolledBack,
    /// The previous module served already; nothing has changed.
    RolledBackBefore,
    /// There is no previous module; nothing has changed.
    NothingBefore,
    /// The daemon looks at its files now, and deploys what is valid.
    Looks,
    /// The topic has no handler in this daemon.
    Pulled,
    /// This daemon does not serve the topic.
    NotServed,
    /// This daemon does not know the order.
    Unknown,
}

impl Order {
    /// The order to roll back a topic's module.
    pub fn rollback(topic: &str) -> Self {
        Self::new(ROLLBACK, topic)
    }

    /// The order to look at the files now.
    pub fn reload(topic: &str) -> Self {
        Self::new(RELOAD, topic)
    }

    fn new(order: &str, topic: &str) -> Self {
        let id = JobId::generate().to_string();
        Self { id, order: order.to_owned(), topic: topic.to_owned() }
    }

    /// Parses an order; `None` if it is invalid, or its id cannot be part of a Redis key.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > ORDER_MAX {
            return None;
        }
        let order: Self = serde_json::from_str(text).ok()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_good = (1..=64).contains(&order.id.len()) && order.id.chars().all(is_plain);
        is_good.then_some(order)
    }

    /// What the order asks for.
    pub fn kind(&self) -> OrderKind<'_> {
        match self.order.as_str() {
            ROLLBACK => OrderKind::Rollback { topic: &self.topic },
            RELOAD => OrderKind::Reload { topic: &self.topic },
            _ => OrderKind::Unknown,
        }
    }
}

impl OrderResult {
    /// Its word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::RolledBack => "rolled_back",
            Self::RolledBackBefore => "rolled_back_before",
            Self::NothingBefore => "nothing_before",
            Self::Looks => "looks",
            Self::Pulled => "pulled",
            Self::NotServed => "not_served",
            Self::Unknown => "unknown",
        }
    }
}

/// The replies to an order.
pub struct Replies {
    /// The replies, sorted by the id of the daemon.
    pub replies: Vec<Reply>,
    /// How many daemons received the order and did not reply.
    pub silent: u64,
}

impl Replies {
    /// Sends an order to all daemons, and collects their replies.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn collect(queue: &Queue, order: &Order) -> Result<Self, QueueError> {
        // It holds strings only, so this cannot fail.
        let text = serde_json::to_string(order).unwrap_or_default();
        let until = Instant::now() + REPLY_TIMEOUT;
        let heard = queue.publish_control(&text).await?;
        let mut replies: Vec<Reply> = Vec::new();
        while (replies.len() as u64) < heard && Instant::now() < until {
            tokio::time::sleep(REPLY_POLL).await;
            let texts = queue.control_replies(&order.id).await?;
            replies = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        }
        replies.sort_by(|one, other| one.runner.cmp(&other.runner));
        let silent = heard.saturating_sub(replies.len() as u64);
        Ok(Self { replies, silent })
    }

    /// Why the order was not followed everywhere; `None` if it was.
    pub fn trouble(&self, topic: &TopicName) -> Option<NotFollowed> {
        let count = |result: &[OrderResult]| {
            self.replies.iter().filter(|reply| result.contains(&reply.result)).count()
        };
        let nothing_before = count(&[OrderResult::NothingBefore]);
        if self.replies.is_empty() && self.silent == 0 {
            Some(NotFollowed::NoDaemon)
        } else if self.silent > 0 {
            Some(NotFollowed::Silent { daemons: self.silent })
        } else if nothing_before > 0 {
            Some(NotFollowed::NothingBefore { topic: topic.clone(), daemons: nothing_before })
        } else if count(&[OrderResult::Unknown]) > 0 {
            Some(NotFollowed::Unknown)
        } else if count(&[
            OrderResult::RolledBack,
            OrderResult::RolledBackBefore,
            OrderResult::Looks,
        ]) > 0
        {
            None
        } else if count(&[OrderResult::Pulled]) > 0 {
            Some(NotFollowed::NoHandler { topic: topic.clone() })
        } else {
            Some(NotFollowed::NotServed { topic: topic.clone() })
        }
    }
}

/// Why an order was not followed by every daemon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// No daemon uses this Redis and prefix.
    #[error("no daemon runs on this Redis: nothing was rolled back")]
    NoDaemon,
    /// Some daemons did not reply in time.
    #[error("{daemons} of the daemons did not reply within {} s", REPLY_TIMEOUT.as_secs())]
    Silent {
        /// The number of daemons.
        daemons: u64,
    },
    /// Some daemons have no previous module of the topic.
    #[error("{daemons} of the daemons have no previous module for {topic}")]
    NothingBefore {
        /// The topic.
        topic: TopicName,
        /// The number of daemons.
        daemons: usize,
    },
    /// A daemon runs a version that does not know the order.
    #[error("not every daemon supports this order")]
    Unknown,
    /// Daemons serve the topic to pull consumers only.
    #[error("{topic} has no handler in any daemon that runs on this Redis")]
    NoHandler {
        /// The topic.
        topic: TopicName,
    },
    /// No daemon serves the topic.
    #[error("{topic} is not served in any daemon that runs on this Redis")]
    NotServed {
        /// The topic.
        topic: TopicName,
    },
}

impl NotFollowed {
    /// What the operator can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoDaemon => "restore the previous module file; a daemon loads it at its start",
            Self::Silent { .. } => "see their logs and duebox stats; the order can be repeated",
            Self::NothingBefore { .. } => {
                "a daemon keeps only a module that it replaced itself: restore the previous file"
            }
            Self::Unknown => "run the same version everywhere, or restore the previous file",
            Self::NoHandler { .. } | Self::NotServed { .. } => {
                "see the manifests of the daemons; duebox check lists the topics of one"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_reads_back_and_other_texts_are_refused() {
        let order = Order { id: "0190-aB".to_owned(), ..Order::rollback("order.close") };
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(Order::read(&text), Some(order.clone()));
        assert_eq!(order.kind(), OrderKind::Rollback { topic: "order.close" });
        let other = text.replace(ROLLBACK, "dance");
        assert_eq!(Order::read(&other).unwrap().kind(), OrderKind::Unknown);
        let long = text.replace("order.close", &"x".repeat(ORDER_MAX));
        for bad in ["", "{}", &text.replace("0190", "a:{b}"), &text.replace("0190-aB", ""), &long] {
            assert_eq!(Order::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_what_serde_writes() {
        for result in [
            OrderResult::RolledBack,
            OrderResult::RolledBackBefore,
            OrderResult::NothingBefore,
            OrderResult::Looks,
            OrderResult::Pulled,
            OrderResult::NotServed,
            OrderResult::Unknown,
        ] {
            assert_eq!(serde_json::to_string(&result).unwrap(), format!("\"{}\"", result.word()));
        }
    }
}
