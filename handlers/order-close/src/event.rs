//! The shop's event in the payload, and its validation.
//!
//! `{"order":42}` is enough. A complete event:
//!
//! ```json
//! {"order":"A-1042","shop":"bramble","amount":"149.90","currency":"EUR","created_at":"2026-11-21T09:30:00Z"}
//! ```
//!
//! Other fields are ignored. An event that passed [`Event::check`] has names that are safe in a log
//! line and in a path, and a valid amount.

use std::fmt;

use serde::Deserialize;

/// An order that was unpaid when the event was written. The shop knows its present state.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    /// The order's id at the shop.
    pub(crate) order: OrderId,
    shop: Option<String>,
    /// A decimal number as text, because floats are not exact.
    amount: Option<String>,
    currency: Option<String>,
}

/// The id of an order: a number or a name.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an order id is an integer or a string")]
pub(crate) enum OrderId {
    Number(u64),
    Text(String),
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Event {
    /// Returns the event if all its values are valid.
    pub(crate) fn check(self) -> Result<Self, String> {
        if let OrderId::Text(text) = &self.order {
            name("order", text)?;
        }
        if let Some(shop) = &self.shop {
            name("shop", shop)?;
        }
        if let Some(amount) = &self.amount {
            let (whole, cents) = amount.split_once('.').unwrap_or((amount, "00"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if !digits(whole) || !digits(cents) || amount.len() > 32 {
                return Err(format!("the amount {amount:?} is not a decimal number"));
            }
        }
        match &self.currency {
            Some(code) if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_uppercase()) => {
                Err(format!("the currency {code:?} is not a code of three capital letters"))
            }
            _ => Ok(self),
        }
    }

    /// The shop's name; empty if the event has none.
    pub(crate) fn shop(&self) -> &str {
        self.shop.as_deref().unwrap_or_default()
    }

    /// The amount for a log line.
    pub(crate) fn amount(&self) -> String {
        let amount = self.amount.as_deref().unwrap_or("unknown");
        format!("amount={amount}{}", self.currency.as_deref().unwrap_or_default())
    }
}

/// Refuses a name that is empty, only dots, longer than 64 bytes, or unsafe in a log line.
fn name(what: &str, text: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || "-_.:/#".contains(c);
    let is_dots = text.bytes().all(|byte| byte == b'.');
    if is_dots || text.len() > 64 || !text.chars().all(fine) {
        return Err(format!(
            "the {what} {text:?} is not a name of 1 to 64 letters, digits or -_.:/#"
        ));
    }
    Ok(())
}
