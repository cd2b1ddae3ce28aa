//! The demo's plan: the jobs to push, with the shop's state of each, the end it must come to, and
//! whether it must have an effect at the shop.

use std::time::Duration;

use duebox_queue::Due;
use duebox_shop::Books;
use jiff::{Timestamp, ToSpan};
use serde_json::json;

/// The three topics of the quickstart, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    OrderClose,
    ShopActivation,
    PaymentPoll,
}

/// Upper bound of the delays, which start at 0.
const DELAY_MAX_MS: u64 = 10_000;
/// By how much some shops are too young at their first attempt.
const TOO_YOUNG: Duration = Duration::from_secs(2);
/// The manifest's `days`.
const SHOP_DAYS: i64 = 7;
/// The number of attempts by the manifest's schedule for payments.
const PAYMENT_ATTEMPTS: u32 = 8;

/// How a job must end, and after how many attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpectedEnd {
    pub(crate) attempts: u32,
    pub(crate) end: End,
}

/// How a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its handler acked it, and it is gone from Redis.
    Acked,
    /// It is dead with this class.
    Dead(&'static str),
}

/// One job to push.
#[derive(Debug, Clone)]
pub(crate) struct PlannedJob {
    pub(crate) topic: Topic,
    pub(crate) id: String,
    pub(crate) due_ms: u64,
    pub(crate) payload: String,
    /// The states of the payment, one per query; the last one stays.
    pub(crate) states: Vec<&'static str>,
    pub(crate) expected: ExpectedEnd,
    /// Whether its order must be closed or its message sent, exactly once.
    pub(crate) effect: bool,
}

impl Topic {
    pub(crate) const ALL: [Self; 3] = [Self::OrderClose, Self::ShopActivation, Self::PaymentPoll];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OrderClose => "order.close",
            Self::ShopActivation => "shop.activation",
            Self::PaymentPoll => "payment.poll",
        }
    }

    pub(crate) fn language(self) -> &'static str {
        match self {
            Self::OrderClose => "Rust",
            Self::ShopActivation => "Go",
            Self::PaymentPoll => "AssemblyScript",
        }
    }
}

impl ExpectedEnd {
    const fn acked(attempts: u32) -> Self {
        Self { attempts, end: End::Acked }
    }

    const fn dropped(attempts: u32) -> Self {
        Self { attempts, end: End::Dead("drop") }
    }
}

impl PlannedJob {
    pub(crate) fn due(&self) -> Due {
        Due::At(self.due_ms)
    }

    /// Adds the order or the payment of the job to the shop.
    pub(crate) fn place(&self, books: &mut Books) {
        match self.topic {
            Topic::OrderClose => books.place_order(&self.id, &self.states),
            Topic::PaymentPoll => books.start_payment(&self.id, &self.states),
            Topic::ShopActivation => {}
        }
    }
}

/// `count` jobs distributed over the three topics, due from `now_ms` (Redis' clock) to ten seconds
/// later.
pub(crate) fn jobs(count: u64, now_ms: u64) -> Vec<PlannedJob> {
    (0..count)
        .map(|number| {
            // A stride coprime to the range spreads the delays evenly over topics and kinds.
            let due_ms = now_ms + number * 7_919 % (DELAY_MAX_MS + 1);
            let (nth, which) = (number / 3, number % 3);
            match Topic::ALL[usize::try_from(which).unwrap_or(0)] {
                Topic::OrderClose => order(nth, due_ms),
                Topic::ShopActivation => shop(nth, due_ms),
                Topic::PaymentPoll => payment(nth, due_ms),
            }
        })
        .collect()
}

/// A further order during the rebuild: unpaid and due at once.
pub(crate) fn late_order(number: u64, now_ms: u64) -> PlannedJob {
    let id = format!("late-order-{number:04}");
    let (topic, payload, expected) = (Topic::OrderClose, order_event(&id), ExpectedEnd::acked(1));
    PlannedJob { topic, id, due_ms: now_ms, payload, states: Vec::new(), expected, effect: true }
}

fn order(number: u64, due_ms: u64) -> PlannedJob {
    let id = format!("order-{number:04}");
    let (states, expected, effect) = match number % 10 {
        0 => (vec!["processing", "paid"], ExpectedEnd::acked(2), false),
        1 => (vec!["processing", "processing", "failed"], ExpectedEnd::acked(3), true),
        2 | 3 => (vec!["paid"], ExpectedEnd::acked(1), false),
        4 => (vec![], ExpectedEnd::dropped(1), false),
        _ => (vec!["unpaid"], ExpectedEnd::acked(1), true),
    };
    let payload = match expected.end {
        End::Acked => order_event(&id),
        End::Dead(_) => json!({"order": id, "amount": "12,50"}).to_string(),
    };
    PlannedJob { topic: Topic::OrderClose, id, due_ms, payload, states, expected, effect }
}

fn order_event(id: &str) -> String {
    json!({"order": id, "shop": "bramble", "amount": "149.90", "currency": "EUR"}).to_string()
}

fn shop(number: u64, due_ms: u64) -> PlannedJob {
    let due = Timestamp::from_millisecond(i64::try_from(due_ms).unwrap_or(i64::MAX));
    let days_ago = |days: i64| due.clone().and_then(|due| due.checked_sub((24 * days).hours()));
    let (opened, status, goods, expected) = match number % 6 {
        // Too young at the first attempt, by the delay that the handler asks for.
        0 => {
            let young = days_ago(SHOP_DAYS).and_then(|opened| opened.checked_add(TOO_YOUNG));
            (young, "open", 0, ExpectedEnd::acked(2))
        }
        1 => (days_ago(8), "open", 12, ExpectedEnd::acked(1)),
        2 => (days_ago(30), "closed", 0, ExpectedEnd::dropped(1)),
        _ => (days_ago(8), "open", 0, ExpectedEnd::acked(1)),
    };
    let opened = opened.map(|at| at.to_string()).unwrap_or_default();
    let locale = ["en-GB", "de-AT", "zh-CN"][usize::try_from(number % 3).unwrap_or(0)];
    let payload = json!({"shop": {
        "id": format!("s-{number}"), "name": "Bramble & Co", "locale": locale, "status": status,
        "goods": goods, "opened_at": opened,
        "owner": {"name": "Ada", "email": "ada@bramble.example"},
    }});
    let (id, payload) = (format!("shop-{number:04}"), payload.to_string());
    let effect = goods == 0 && expected.end == End::Acked;
    let topic = Topic::ShopActivation;
    PlannedJob { topic, id, due_ms, payload, states: Vec::new(), expected, effect }
}

fn payment(number: u64, due_ms: u64) -> PlannedJob {
    let id = format!("payment-{number:04}");
    let (states, expected) = match number % 8 {
        0 => (vec!["open", "paid"], ExpectedEnd::acked(2)),
        1 => (vec!["open", "open", "pending", "paid"], ExpectedEnd::acked(4)),
        2 => (vec!["open", "expired"], ExpectedEnd::dropped(2)),
        3 => (vec!["open"], ExpectedEnd { attempts: PAYMENT_ATTEMPTS, end: End::Dead("nack") }),
        4 => (vec![], ExpectedEnd::dropped(1)),
        _ => (vec!["paid"], ExpectedEnd::acked(1)),
    };
    let payload = if states.is_empty() {
        "{\"payment\":".to_owned()
    } else {
        json!({"payment": {"id": id, "amount": "19.90", "currency": "EUR"}}).to_string()
    };
    PlannedJob { topic: Topic::PaymentPoll, id, due_ms, payload, states, expected, effect: false }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_plan_has_distinct_ids_all_topics_and_all_delays() {
        let plan = jobs(360, 1_000_000);
        let ids: HashSet<_> = plan.iter().map(|job| &job.id).collect();
        assert_eq!(ids.len(), 360);
        for topic in Topic::ALL {
            assert_eq!(plan.iter().filter(|job| job.topic == topic).count(), 120);
        }
        let delays: Vec<u64> = plan.iter().map(|job| job.due_ms - 1_000_000).collect();
        assert_eq!(delays.iter().min(), Some(&0));
        assert!(delays.iter().all(|delay| *delay <= DELAY_MAX_MS));
        assert!(delays.iter().any(|delay| *delay > 9_000));
        assert!(plan.iter().any(|job| job.expected.end == End::Dead("nack")));
        for topic in [Topic::OrderClose, Topic::ShopActivation] {
            assert!(plan.iter().any(|job| job.topic == topic && job.effect));
            assert!(plan.iter().any(|job| job.topic == topic && !job.effect));
        }
    }
}
