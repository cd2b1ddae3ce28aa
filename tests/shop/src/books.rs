//! The shop's data: its orders, the payments at its provider, the messages it sent, and a ledger of
//! every request that could have had an effect. No HTTP here.
//!
//! Invariants: an order is closed at most once, and never after it was paid. A key sends one
//! message. Nothing grows beyond [`KEPT_MAX`].

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

/// Maximum number of orders, payments, messages and ledger entries, each.
const KEPT_MAX: usize = 100_000;

/// The shop's data.
#[derive(Debug, Default)]
pub struct Books {
    orders: BTreeMap<String, Order>,
    payments: BTreeMap<String, PaymentStates>,
    messages: Vec<Message>,
    ledger: Vec<Entry>,
}

/// The sender of a request: a job in one of its attempts, or a person with curl.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// `Idempotency-Key`; empty if it is missing.
    pub(crate) key: String,
    /// `Duebox-Attempt`; `None` if the caller is not a job.
    pub(crate) attempt: Option<String>,
}

/// The states of a payment, one per query; the last one stays.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaymentStates {
    states: Vec<String>,
    #[serde(skip)]
    taken: usize,
    /// The attempt of the last query: a repeat of the same attempt does not advance the state.
    #[serde(skip)]
    last: Option<(String, String)>,
}

#[derive(Debug)]
struct Order {
    payment: PaymentStates,
    closed: bool,
}

/// An order in a response.
#[derive(Debug, Serialize)]
pub(crate) struct OrderView {
    order: String,
    status: &'static str,
    payment: String,
}

/// A message that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// The recipient's address.
    pub recipient: String,
    /// The language.
    #[serde(default)]
    pub locale: String,
    /// The subject.
    pub subject: String,
    /// The text.
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
    /// The closed order, or the recipient's address.
    pub of: String,
    /// The request's `Idempotency-Key`.
    pub key: String,
    /// False for a repeat, which got the same response and had no effect.
    pub effect: bool,
}

/// Why the shop refuses a request.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl Books {
    /// Adds an open order. Its payment has these states, one per query; the last one stays. The
    /// default is `unpaid`.
    pub fn place_order(&mut self, id: &str, states: &[&str]) {
        let payment = PaymentStates::of(states, "unpaid");
        self.orders.insert(id.to_owned(), Order { payment, closed: false });
    }

    /// Adds a payment with these states, one per query; the last one stays. The default is `open`.
    pub fn start_payment(&mut self, id: &str, states: &[&str]) {
        self.payments.insert(id.to_owned(), PaymentStates::of(states, "open"));
    }

    /// The messages that were sent, in order.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Every request that could have had an effect, in order; at most the first 100,000.
    pub fn ledger(&self) -> &[Entry] {
        &self.ledger
    }

    pub(crate) fn put_order(
        &mut self,
        id: &str,
        states: PaymentStates,
    ) -> Result<OrderView, Refusal> {
        ensure_capacity(self.orders.len())?;
        self.orders.insert(id.to_owned(), Order { payment: states.or("unpaid"), closed: false });
        self.order(id, &Caller::default(), false)
    }

    pub(crate) fn put_payment(&mut self, id: &str, states: PaymentStates) -> Result<(), Refusal> {
        ensure_capacity(self.payments.len())?;
        self.payments.insert(id.to_owned(), states.or("open"));
        Ok(())
    }

    /// An order. With `is_query` the query advances the payment's state.
    pub(crate) fn order(
        &mut self,
        id: &str,
        caller: &Caller,
        is_query: bool,
    ) -> Result<OrderView, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if is_query {
            order.payment.advance(caller);
        }
        let status = if order.closed { "closed" } else { "open" };
        Ok(OrderView { order: id.to_owned(), status, payment: order.payment.current().to_owned() })
    }

    /// Closes an unpaid order. Closing it again has no effect.
    pub(crate) fn close(&mut self, id: &str, caller: &Caller) -> Result<OrderView, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if order.payment.is_paid() {
            return Err(Refusal(StatusCode::CONFLICT, format!("the order {id} is paid")));
        }
        let effect = !std::mem::replace(&mut order.closed, true);
        self.note("closed", id, caller, effect);
        self.order(id, caller, false)
    }

    /// Marks an order as paid, which may happen between a query and its closing.
    pub(crate) fn pay(&mut self, id: &str) -> Result<OrderView, Refusal> {
        let order = self.orders.get_mut(id).ok_or_else(|| unknown("order", id))?;
        if order.closed {
            return Err(Refusal(StatusCode::CONFLICT, format!("the order {id} is closed")));
        }
        order.payment = PaymentStates::of(&["paid"], "");
        self.order(id, &Caller::default(), false)
    }

    /// The state of a payment; the query advances it.
    pub(crate) fn payment(&mut self, id: &str, caller: &Caller) -> Result<String, Refusal> {
        let states = self.payments.get_mut(id).ok_or_else(|| unknown("payment", id))?;
        states.advance(caller);
        Ok(states.current().to_owned())
    }

    /// Sends a message unless its key was used before. Returns its number, from 1, and whether it
    /// was sent now.
    pub(crate) fn send(
        &mut self,
        mut message: Message,
        caller: &Caller,
    ) -> Result<(usize, bool), Refusal> {
        if caller.key.is_empty() {
            let why = "a message needs an Idempotency-Key, so that it is not sent twice";
            return Err(Refusal(StatusCode::BAD_REQUEST, why.to_owned()));
        }
        if !message.recipient.contains('@') {
            let why = format!("{:?} is not an address", message.recipient);
            return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
        message.key.clone_from(&caller.key);
        let sent = self.messages.iter().position(|sent| sent.key == message.key);
        let number = match sent {
            Some(place) if self.messages[place] != message => {
                let why = format!("the key {} has sent another message", message.key);
                return Err(Refusal(StatusCode::UNPROCESSABLE_ENTITY, why));
            }
            Some(place) => place + 1,
            None => {
                ensure_capacity(self.messages.len())?;
                self.messages.push(message.clone());
                self.messages.len()
            }
        };
        self.note("sent", &message.recipient, caller, sent.is_none());
        Ok((number, sent.is_none()))
    }

    fn note(&mut self, what: &'static str, of: &str, caller: &Caller, effect: bool) {
        if self.ledger.len() < KEPT_MAX {
            let (of, key) = (of.to_owned(), caller.key.clone());
            self.ledger.push(Entry { what, of, key, effect });
        }
    }
}

impl PaymentStates {
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

    fn advance(&mut self, caller: &Caller) {
        let this = caller.attempt.clone().map(|attempt| (caller.key.clone(), attempt));
        if this.is_none() || this != self.last {
            self.taken = self.taken.saturating_add(1);
            self.last = this;
        }
    }

    /// The state at the last query; the first one before any query.
    fn current(&self) -> &str {
        let place = self.taken.saturating_sub(1).min(self.states.len().saturating_sub(1));
        self.states.get(place).map_or("", String::as_str)
    }

    fn is_paid(&self) -> bool {
        matches!(self.current(), "paid" | "refunded")
    }
}

fn unknown(what: &str, id: &str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, format!("there is no {what} {id}"))
}

fn ensure_capacity(kept: usize) -> Result<(), Refusal> {
    let why = || format!("the shop keeps at most {KEPT_MAX} of each kind");
    if kept < KEPT_MAX { Ok(()) } else { Err(Refusal(StatusCode::INSUFFICIENT_STORAGE, why())) }
}
