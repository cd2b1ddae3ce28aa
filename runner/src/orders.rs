//! What people tell every running daemon at once, over Redis, and what each answers.
//!
//! An order is published to all daemons of one Redis and prefix; each answers into a list of the order's
//! own. Who may use that Redis may give orders: they do nothing that a push or a changed file could not.

use serde::{Deserialize, Serialize};

/// The longest order that is read, in bytes.
const ORDER_MAX: usize = 4 << 10;

/// The order to take a topic's module back.
const ROLLBACK: &str = "rollback";

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
    /// Something that this version does not know.
    Unknown,
}

/// What one daemon answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// The module before serves again.
    RolledBack,
    /// It did already: nothing has changed.
    RolledBackBefore,
    /// There is no module before: nothing has changed.
    NothingBefore,
    /// The topic has no handler there.
    Pulled,
    /// The topic is not served there.
    NotServed,
    /// The daemon does not know the order.
    Unknown,
}

impl Order {
    /// The order to take a topic's module back.
    pub fn rollback(id: String, topic: &str) -> Self {
        Self { id, order: ROLLBACK.to_owned(), topic: topic.to_owned() }
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
            Self::Pulled => "pulled",
            Self::NotServed => "not_served",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_given_and_nothing_else_is_one() {
        let order = Order::rollback("0190-aB".to_owned(), "order.close");
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
            Came::Pulled,
            Came::NotServed,
            Came::Unknown,
        ] {
            assert_eq!(serde_json::to_string(&came).unwrap(), format!("\"{}\"", came.word()));
        }
    }
}
