//! What the demo pushes: events as a shop's systems send them, each with what the shop knows of it, the
//! end it must come to, and whether something must come of it at the shop.

use std::time::Duration;

use duebox_queue::Due;
use duebox_shop::Books;
use jiff::{Timestamp, ToSpan};
use serde_json::json;

/// The three topics of the quickstart, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    OrderClose,
    ShopActivation,
    PaymentPoll,
}

/// Delays are spread from nothing to this.
const DELAY_MAX_MS: u64 = 10_000;
/// How much too young a shop is at its first look, and how long it is waited for.
const TOO_YOUNG: Duration = Duration::from_secs(2);
/// `days` of the manifest.
const SHOP_DAYS: i64 = 7;
/// Attempts the manifest's schedule gives a payment.
const PAYMENT_ATTEMPTS: u32 = 8;

/// How a job must end, and after how many attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) attempts: u32,
    pub(crate) end: End,
}

/// Where a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its handler acked it, and nothing of it is left.
    Acked,
    /// It is dead, with this class.
    Dead(&'static str),
}

/// One job to push.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) topic: Topic,
    pub(crate) id: String,
    pub(crate) due_ms: u64,
    pub(crate) payload: String,
    /// What the payment's provider says, look by look; the last word for good.
    pub(crate) states: Vec<&'static str>,
    pub(crate) fate: Fate,
    /// Its order is closed, or its message sent: once.
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

impl Fate {
    const fn acked(attempts: u32) -> Self {
        Self { attempts, end: End::Acked }
    }

    const fn dropped(attempts: u32) -> Self {
        Self { attempts, end: End::Dead("drop") }
    }
}

impl Planned {
    pub(crate) fn due(&self) -> Due {
        Due::At(self.due_ms)
    }

    /// Writes the order or the payment that the job is about into the shop's books.
    pub(crate) fn place(&self, books: &mut Books) {
        match self.topic {
            Topic::OrderClose => books.place_order(&self.id, &self.states),
            Topic::PaymentPoll => books.start_payment(&self.id, &self.states),
            Topic::ShopActivation => {}
        }
    }
}

/// `count` jobs over the three topics, due from `now_ms` (Redis' clock) to ten seconds later.
pub(crate) fn jobs(count: u64, now_ms: u64) -> Vec<Planned> {
    (0..count)
        .map(|number| {
            // A stride without a common factor spreads the delays over kinds and topics alike.
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

/// One more order, for the time of the rebuild: unpaid, due at once.
pub(crate) fn late_order(number: u64, now_ms: u64) -> Planned {
    let id = format!("late-order-{number:04}");
    let (topic, payload, fate) = (Topic::OrderClose, order_event(&id), Fate::acked(1));
    Planned { topic, id, due_ms: now_ms, payload, states: Vec::new(), fate, effect: true }
}

fn order(number: u64, due_ms: u64) -> Planned {
    let id = format!("order-{number:04}");
    let (states, fate, effect) = match number % 10 {
        0 => (vec!["processing", "paid"], Fate::acked(2), false),
        1 => (vec!["processing", "processing", "failed"], Fate::acked(3), true),
        2 | 3 => (vec!["paid"], Fate::acked(1), false),
        4 => (vec![], Fate::dropped(1), false),
        _ => (vec!["unpaid"], Fate::acked(1), true),
    };
    let payload = match fate.end {
        End::Acked => order_event(&id),
        End::Dead(_) => json!({"order": id, "amount": "12,50"}).to_string(),
    };
    Planned { topic: Topic::OrderClose, id, due_ms, payload, states, fate, effect }
}

fn order_event(id: &str) -> String {
    json!({"order": id, "shop": "bramble", "amount": "149.90", "currency": "EUR"}).to_string()
}

fn shop(number: u64, due_ms: u64) -> Planned {
    let due = Timestamp::from_millisecond(i64::try_from(due_ms).unwrap_or(i64::MAX));
    let days_ago = |days: i64| due.clone().and_then(|due| due.checked_sub((24 * days).hours()));
    let (opened, status, goods, fate) = match number % 6 {
        // Too young at the first look, by as much as the handler asks to be called back after.
        0 => {
            let young = days_ago(SHOP_DAYS).and_then(|opened| opened.checked_add(TOO_YOUNG));
            (young, "open", 0, Fate::acked(2))
        }
        1 => (days_ago(8), "open", 12, Fate::acked(1)),
        2 => (days_ago(30), "closed", 0, Fate::dropped(1)),
        _ => (days_ago(8), "open", 0, Fate::acked(1)),
    };
    let opened = opened.map(|at| at.to_string()).unwrap_or_default();
    let locale = ["en-GB", "de-AT", "zh-CN"][usize::try_from(number % 3).unwrap_or(0)];
    let payload = json!({"shop": {
        "id": format!("s-{number}"), "name": "Bramble & Co", "locale": locale, "status": status,
        "goods": goods, "opened_at": opened,
        "owner": {"name": "Ada", "email": "ada@bramble.example"},
    }});
    let (id, payload) = (format!("shop-{number:04}"), payload.to_string());
    let effect = goods == 0 && fate.end == End::Acked;
    let topic = Topic::ShopActivation;
    Planned { topic, id, due_ms, payload, states: Vec::new(), fate, effect }
}

fn payment(number: u64, due_ms: u64) -> Planned {
    let id = format!("payment-{number:04}");
    let (states, fate) = match number % 8 {
        0 => (vec!["open", "paid"], Fate::acked(2)),
        1 => (vec!["open", "open", "pending", "paid"], Fate::acked(4)),
        2 => (vec!["open", "expired"], Fate::dropped(2)),
        3 => (vec!["open"], Fate { attempts: PAYMENT_ATTEMPTS, end: End::Dead("nack") }),
        4 => (vec![], Fate::dropped(1)),
        _ => (vec!["paid"], Fate::acked(1)),
    };
    let payload = if states.is_empty() {
        "{\"payment\":".to_owned()
    } else {
        json!({"payment": {"id": id, "amount": "19.90", "currency": "EUR"}}).to_string()
    };
    Planned { topic: Topic::PaymentPoll, id, due_ms, payload, states, fate, effect: false }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_plan_has_its_own_ids_all_topics_and_all_delays() {
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
        assert!(plan.iter().any(|job| job.fate.end == End::Dead("nack")));
        for topic in [Topic::OrderClose, Topic::ShopActivation] {
            assert!(plan.iter().any(|job| job.topic == topic && job.effect));
            assert!(plan.iter().any(|job| job.topic == topic && !job.effect));
        }
    }
}
