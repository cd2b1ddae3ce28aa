//! What the shop knows: its orders, the payments at its provider, the messages it sent, and a ledger of
//! every request that could have had an effect. No HTTP here.
//!
//! Invariants: an order is closed once, and never once it is paid; a key sends one message; nothing
//! grows beyond [`KEPT_MAX`].

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

/// Orders, payments, messages and lines of the ledger, each.
const KEPT_MAX: usize = 100_000;

/// Everything that the shop knows.
#[derive(Debug, Default)]
pub struct Books {
    orders: BTreeMap<String, Order>,
    payments: BTreeMap<String, Looks>,
    messages: Vec<Message>,
    ledger: Vec<Entry>,
}

/// Who asks: a job in one of its attempts, or somebody with a command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asker {
    /// `Idempotency-Key`; empty if there is none.
    pub(crate) key: String,
    /// `Duebox-Attempt`, if a job asks.
    pub(crate) attempt: Option<String>,
}

/// What a payment's provider says: another word at each look, the last one for good.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Looks {
    states: Vec<String>,
    #[serde(skip)]
    taken: usize,
    /// The attempt that looked last: when its job is run again, that is no other look.
    #[serde(skip)]
    last: Option<(String, String)>,
}

#[derive(Debug)]
struct Order {
    payment: Looks,
    closed: bool,
}

/// An order as the shop shows it.
#[derive(Debug, Serialize)]
pub(crate) struct OrderShown {
    order: String,
    status: &'static str,
    payment: String,
}

/// A message that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The address it went to.
    pub recipient: String,
    /// The language it is in.
    #[serde(default)]
    pub locale: String,
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub text: String,
    /// The key under which it was sent.
    #[serde(default)]
    pub key: String,
}

/// One line of the ledger: a request that could have had an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// `closed` or `sent`.
    pub what: &'static str,
    /// The order that was closed, or the address that was written to.
    pub of: String,
    /// The request's `Idempotency-Key`.
    pub key: String,
    /// False for a repetition, which was answered like the first and had none.
    pub effect: bool,
}

/// Why the shop does not do what it is asked.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl Books {
    /// Writes down an order that is open; its payment has these states, one at each look, the last for
    /// good. None at all is `unpaid`.
    pub fn place_order(&mut self, id: &str, states: &[&str]) {
        let payment = Looks::of(states, "unpaid");
        self.orders.insert(id.to_owned(), Order { payment, closed: false });
    }

    /// Writes down a payment with these states, one at each look, the last for good. None at all is
    /// `open`.
    pub fn start_payment(&mut self, id: &str, states: &[&str]) {
        self.payments.insert(id.to_owned(), Looks::of(states, "open"));
    }

    /// The messages that were sent, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Every request that could have had an effect, in order; the first hundred thousand.
    pub fn ledger(&self) -> &[Entry] {
        &self.ledger
    }

    pub(crate) fn put_order(&mut self, id: &str, looks: Looks) -> Result<OrderShown, Refusal> {
        room(self.orders.len())?;
        self.orders.insert(id.to_owned(), Order { payment: looks.or("unpaid"), closed: false });
        self.order(id, &Asker::default(), false)
    }

    pub(crate) fn put_payment(&mut self, id: &str, looks: Looks) -> Result<(), Refusal> {
        room(self.payments.len())?;
        self.payments.insert(id.to_owned(), looks.or("open"));
        Ok(())
    }

    /// An order; `looks` takes one at its payment, otherwise the last word counts.
    pub(crate) fn order(
        &mut self,
        id: &str,
        asker: &Asker,
        looks: bool,
    ) -> Result<OrderShown, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if looks {
            order.payment.look(asker);
        }
        let status = if order.closed { "closed" } else { "open" };
        Ok(OrderShown { order: id.to_owned(), status, payment: order.payment.word().to_owned() })
    }

    /// Closes an order that is not paid. To close it again changes nothing.
    pub(crate) fn close(&mut self, id: &str, asker: &Asker) -> Result<OrderShown, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if order.payment.is_paid() {
            return Err(Refusal(StatusCode::CONFLICT, format!("the order {id} is paid")));
        }
        let effect = !std::mem::replace(&mut order.closed, true);
        self.note("closed", id, asker, effect);
        self.order(id, asker, false)
    }

    /// Takes the money for an order: what can happen between a look at it and its closing.
    pub(crate) fn pay(&mut self, id: &str) -> Result<OrderShown, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if order.closed {
            return Err(Refusal(StatusCode::CONFLICT, format!("the order {id} is closed")));
        }
        order.payment = Looks::of(&["paid"], "");
        self.order(id, &Asker::default(), false)
    }

    /// The provider's word about a payment, at one more look.
    pub(crate) fn payment(&mut self, id: &str, asker: &Asker) -> Result<String, Refusal> {
        let looks = self.payments.get_mut(id).ok_or_else(|| unknown("payment", id))?;
        looks.look(asker);
        Ok(looks.word().to_owned())
    }

    /// Sends a message, unless its key has sent it before. Answers its number, from 1, and whether it
    /// went out now.
    pub(crate) fn send(
        &mut self,
        mut message: Message,
        asker: &Asker,
    ) -> Result<(usize, bool), Refusal> {
        if asker.key.is_empty() {
            let why = "a message needs an Idempotency-Key, so that it is not sent twice";
            return Err(Refusal(StatusCode::BAD_REQUEST, why.to_owned()));
        }
        if !message.recipient.contains('@') {
            let why = format!("{:?} is no address", message.recipient);
            return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
        message.key.clone_from(&asker.key);
        let sent = self.messages.iter().position(|sent| sent.key == message.key);
        let number = match sent {
            Some(place) if self.messages[place] != message => {
                let why = format!("the key {} has sent another message", message.key);
                return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why));
            }
            Some(place) => place + 1,
            None => {
                room(self.messages.len())?;
                self.messages.push(message.clone());
                self.messages.len()
            }
        };
        self.note("sent", &message.recipient, asker, sent.is_none());
        Ok((number, sent.is_none()))
    }

    fn note(&mut self, what: &'static str, of: &str, asker: &Asker, effect: bool) {
        if self.ledger.len() < KEPT_MAX {
            let (of, key) = (of.to_owned(), asker.key.clone());
            self.ledger.push(Entry { what, of, key, effect });
        }
    }
}

impl Looks {
    fn of(states: &[&str], otherwise: &str) -> Self {
        let states = states.iter().map(|&state| state.to_owned()).collect();
        Self { states, taken: 0, last: None }.or(otherwise)
    }

    fn or(mut self, otherwise: &str) -> Self {
        if self.states.is_empty() {
            self.states.push(otherwise.to_owned());
        }
        self
    }

    fn look(&mut self, asker: &Asker) {
        let this = asker.attempt.clone().map(|attempt| (asker.key.clone(), attempt));
        if this.is_none() || this != self.last {
            self.taken = self.taken.saturating_add(1);
            self.last = this;
        }
    }

    /// The word at the last look; before any, the first.
    fn word(&self) -> &str {
        let place = self.taken.saturating_sub(1).min(self.states.len().saturating_sub(1));
        self.states.get(place).map_or("", String::as_str)
    }

    fn is_paid(&self) -> bool {
        matches!(self.word(), "paid" | "refunded")
    }
}

fn unknown(what: &str, id: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no {what} {id}"))
}

fn room(kept: usize) -> Result<(), Refusal> {
    let why = || format!("the shop keeps {KEPT_MAX} of each thing and no more");
    if kept < KEPT_MAX { Ok(()) } else { Err(Refusal(StatusCode::INSUFFICIENT_STORAGE, why())) }
}
