//! What people tell every running daemon at once, over Redis, and what each answers.
//!
//! An order is published to all daemons of one Redis and prefix; each answers into a list of the order's
//! own. Who may use that Redis may give orders: they do nothing that a push or a changed file could not.

use std::time::{Duration, Instant};

use duebox_job::{JobId, TopicName};
use duebox_queue::{Queue, QueueError};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest order that is read, in bytes.
const ORDER_MAX: usize = 4 << 10;

/// The order to take a topic's module back.
const ROLLBACK: &str = "rollback";
/// The word of the order to look at the files.
const RELOAD: &str = "reload";
/// How long daemons are given to answer. An order is followed at once; compiling is not part of it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked for answers.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// An order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Where the answers go: a UUID.
    pub id: String,
    /// What is to be done, by its word: a daemon answers a word that it does not know.
    order: String,
    /// The topic it is about.
    topic: String,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish<'a> {
    /// The module before is to serve this topic again.
    Rollback {
        /// The topic.
        topic: &'a str,
    },
    /// The files are to be looked at now.
    Reload {
        /// The topic that it is about.
        topic: &'a str,
    },
    /// Something that this version does not know.
    Unknown,
}

/// What one daemon answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    /// Which daemon it is.
    pub runner: String,
    /// What came of the order there.
    pub result: Came,
    /// The module that serves now, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The module that does not serve any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
}

/// What came of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// The module before serves again.
    RolledBack,
    /// It did already: nothing has changed.
    RolledBackBefore,
    /// There is no module before: nothing has changed.
    NothingBefore,
    /// It looks at its files now, and takes what is good of what has changed.
    Looks,
    /// The topic has no handler there.
    Pulled,
    /// The topic is not served there.
    NotServed,
    /// The daemon does not know the order.
    Unknown,
}

impl Order {
    /// The order to take a topic's module back.
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

    /// Reads an order; none if the text is none, or its id could not stand in a key of Redis.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > ORDER_MAX {
            return None;
        }
        let order: Self = serde_json::from_str(text).ok()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_good = (1..=64).contains(&order.id.len()) && order.id.chars().all(is_plain);
        is_good.then_some(order)
    }

    /// What is to be done.
    pub fn wish(&self) -> Wish<'_> {
        match self.order.as_str() {
            ROLLBACK => Wish::Rollback { topic: &self.topic },
            RELOAD => Wish::Reload { topic: &self.topic },
            _ => Wish::Unknown,
        }
    }
}

impl Came {
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

/// What daemons said to an order.
pub struct Told {
    /// Their answers, in the order of their names.
    pub answers: Vec<Answer>,
    /// Daemons that heard of it and gave no answer.
    pub silent: u64,
}

impl Told {
    /// Gives an order to all daemons, and hears what they answer.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn hear(queue: &Queue, order: &Order) -> Result<Self, QueueError> {
        // Texts alone: there is nothing in it that JSON could not hold.
        let text = serde_json::to_string(order).unwrap_or_default();
        let until = Instant::now() + ANSWERS_WITHIN;
        let heard = queue.publish_control(&text).await?;
        let mut answers: Vec<Answer> = Vec::new();
        while (answers.len() as u64) < heard && Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            let texts = queue.control_replies(&order.id).await?;
            answers = texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
        }
        answers.sort_by(|one, other| one.runner.cmp(&other.runner));
        let silent = heard.saturating_sub(answers.len() as u64);
        Ok(Self { answers, silent })
    }

    /// Why the order was not followed everywhere; none if it was.
    pub fn trouble(&self, topic: &TopicName) -> Option<NotFollowed> {
        let count = |came: &[Came]| {
            self.answers.iter().filter(|answer| came.contains(&answer.result)).count()
        };
        let nothing_before = count(&[Came::NothingBefore]);
        if self.answers.is_empty() && self.silent == 0 {
            Some(NotFollowed::NoDaemon)
        } else if self.silent > 0 {
            Some(NotFollowed::Silent { daemons: self.silent })
        } else if nothing_before > 0 {
            Some(NotFollowed::NothingBefore { topic: topic.clone(), daemons: nothing_before })
        } else if count(&[Came::Unknown]) > 0 {
            Some(NotFollowed::Unknown)
        } else if count(&[Came::RolledBack, Came::RolledBackBefore, Came::Looks]) > 0 {
            None
        } else if count(&[Came::Pulled]) > 0 {
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
    #[error("no daemon runs on this Redis: nothing serves, and nothing was taken back")]
    NoDaemon,
    /// Some daemons did not answer in time.
    #[error("{daemons} of the daemons gave no answer within {} s", ANSWERS_WITHIN.as_secs())]
    Silent {
        /// How many.
        daemons: u64,
    },
    /// Some daemons have replaced no module of the topic.
    #[error("there is nothing to go back to for {topic} in {daemons} of the daemons")]
    NothingBefore {
        /// The topic.
        topic: TopicName,
        /// How many.
        daemons: usize,
    },
    /// A daemon is of a version that does not know the order.
    #[error("not every daemon knows this order")]
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
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoDaemon => {
                "put the module before in its place; a daemon takes at its start what lies there"
            }
            Self::Silent { .. } => {
                "look into their logs, and at duebox stats; the order can be given again"
            }
            Self::NothingBefore { .. } => {
                "a daemon keeps the module that it replaced itself: put the file before in its place"
            }
            Self::Unknown => "run the same version everywhere, or put the file before in its place",
            Self::NoHandler { .. } | Self::NotServed { .. } => {
                "see the manifests of the daemons; duebox check tells which topics one serves"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_given_and_nothing_else_is_one() {
        let order = Order { id: "0190-aB".to_owned(), ..Order::rollback("order.close") };
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(Order::read(&text), Some(order.clone()));
        assert_eq!(order.wish(), Wish::Rollback { topic: "order.close" });
        let other = text.replace(ROLLBACK, "dance");
        assert_eq!(Order::read(&other).unwrap().wish(), Wish::Unknown);
        let long = text.replace("order.close", &"x".repeat(ORDER_MAX));
        for bad in ["", "{}", &text.replace("0190", "a:{b}"), &text.replace("0190-aB", ""), &long] {
            assert_eq!(Order::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn words_are_what_serde_writes() {
        for came in [
            Came::RolledBack,
            Came::RolledBackBefore,
            Came::NothingBefore,
            Came::Looks,
            Came::Pulled,
            Came::NotServed,
            Came::Unknown,
        ] {
            assert_eq!(serde_json::to_string(&came).unwrap(), format!("\"{}\"", came.word()));
        }
    }
}
