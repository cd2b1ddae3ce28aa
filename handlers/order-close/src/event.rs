//! The shop's event, as it comes in the payload, and what makes it malformed.
//!
//! `{"order":42}` is enough. A whole one: `{"order":"A-1042","shop":"bramble","amount":"149.90",
//! "currency":"EUR","created_at":"2026-11-21T09:30:00Z"}`. Fields that are not named here are the shop's
//! own business. An event that passed [`Event::check`] has names
//! that are safe in a log line and in a path, and an amount that is one.

use std::fmt;

use serde::Deserialize;

/// An order that was not paid when the event was written. What came of it since, the shop knows.
#[derive(Debug, Deserialize)]
pub(crate) struct Event {
    /// The order's id at the shop.
    pub(crate) order: OrderId,
    shop: Option<String>,
    /// A decimal number as text: money is no float.
    amount: Option<String>,
    currency: Option<String>,
}

/// The id of an order: shops count them or name them.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an order is named by a whole number or a text")]
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
    /// Takes an event whose values can be acted on.
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
                return Err(format!("the amount {amount:?} is no decimal number"));
            }
        }
        match &self.currency {
            Some(code) if code.len() != 3 || !code.bytes().all(|b| b.is_ascii_uppercase()) => {
                Err(format!("the currency {code:?} is no code of three capital letters"))
            }
            _ => Ok(self),
        }
    }

    /// The shop's name; empty if the event names none.
    pub(crate) fn shop(&self) -> &str {
        self.shop.as_deref().unwrap_or_default()
    }

    /// The amount for a log line.
    pub(crate) fn amount(&self) -> String {
        let amount = self.amount.as_deref().unwrap_or("unknown");
        format!("amount={amount}{}", self.currency.as_deref().unwrap_or_default())
    }
}

/// Refuses a name that is empty, nothing but dots, longer than 64 bytes, or unsafe in a log line.
fn name(what: &str, text: &str) -> Result<(), String> {
    let fine = |c: char| c.is_alphanumeric() || "-_.:/#".contains(c);
    let is_dots = text.bytes().all(|byte| byte == b'.');
    if is_dots || text.len() > 64 || !text.chars().all(fine) {
        return Err(format!("the {what} {text:?} is no name of 1 to 64 letters, digits or -_.:/#"));
    }
    Ok(())
}
