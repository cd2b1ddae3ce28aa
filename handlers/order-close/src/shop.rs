//! The shop's API as this handler uses it: one request for an order's state, one request to close
//! it. An unsuccessful response becomes a verdict here.

use std::fmt::Write;
use std::time::Duration;

use duebox_sdk::http::{Request, Response};
use duebox_sdk::{Job, Verdict};
use serde::Deserialize;

use crate::event::OrderId;

/// The shop in the topic's configuration.
pub(crate) struct Shop {
    origin: String,
    token: Option<String>,
}

/// The state of an order's payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Payment {
    Unpaid,
    Processing,
    Paid,
    Refunded,
    Failed,
    Cancelled,
    Expired,
}

/// The shop's response to a request to close an order.
pub(crate) enum Closing {
    /// The order is closed, now or since an earlier attempt.
    Closed,
    /// The order was paid after the first request, so it stays open.
    PaidMeanwhile,
}

#[derive(Deserialize)]
struct Order {
    payment: Payment,
}

impl Shop {
    /// Reads `shop` and `token` from the configuration.
    pub(crate) fn of(job: &Job) -> Result<Self, Verdict> {
        let missing = "the configuration value \"shop\" is missing; it is the shop's origin, such as https://api.shop.example";
        let origin = job.config("shop").ok_or_else(|| Verdict::nack(missing))?;
        Ok(Self { origin: origin.trim_end_matches('/').to_owned(), token: job.config("token") })
    }

    /// Asks for the state of the order's payment.
    pub(crate) fn payment(&self, job: &Job, order: &OrderId) -> Result<Payment, Verdict> {
        let response = self.send(job, Request::get(&self.url(order)))?;
        if !response.is_success() {
            return Err(refused(&response, order));
        }
        let read = response.json::<Order>();
        let unread = |error| format!("the shop's response for order {order} is malformed: {error}");
        Ok(read.map_err(|error| Verdict::nack(unread(error)))?.payment)
    }

    /// Closes the order. The host's `Idempotency-Key` suffices, because it is the only write.
    pub(crate) fn close(&self, job: &Job, order: &OrderId) -> Result<Closing, Verdict> {
        let response = self.send(job, Request::post(&(self.url(order) + "/close")))?;
        match response.status() {
            200..=299 => Ok(Closing::Closed),
            409 => Ok(Closing::PaidMeanwhile),
            _ => Err(refused(&response, order)),
        }
    }

    /// Sends a request with half of the job's time as its timeout, so that a shop that hangs leads
    /// to a nack with a reason and not to a timeout of the job.
    fn send(&self, job: &Job, request: Request) -> Result<Response, Verdict> {
        let request = request.timeout((job.time_left() / 2).max(Duration::from_millis(1)));
        let request = match &self.token {
            Some(token) => request.header("authorization", &format!("Bearer {token}")),
            None => request,
        };
        request.send().map_err(|error| Verdict::nack(format!("the shop: {error}")))
    }

    fn url(&self, order: &OrderId) -> String {
        format!("{}/orders/{}", self.origin, segment(&order.to_string()))
    }
}

/// The verdict for an unsuccessful response.
fn refused(response: &Response, order: &OrderId) -> Verdict {
    let status = response.status();
    match status {
        404 | 410 => Verdict::drop(format!("the shop has no order {order} ({status})")),
        401 | 403 => Verdict::nack(format!("the shop refused the token ({status})")),
        _ => response.verdict(),
    }
}

/// Encodes a name as one segment of a path.
fn segment(name: &str) -> String {
    name.bytes().fold(String::new(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            let _: std::fmt::Result = write!(path, "%{byte:02X}");
        }
        path
    })
}
