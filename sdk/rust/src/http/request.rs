//! An HTTP request, built step by step and sent once.
//!
//! Invariant: `send` refuses a request that cannot be sent exactly as built, and says why. All hops
//! of a request share its timeout.

use std::time::Duration;

use crate::abi::{self, Meta, Part};
use crate::block::Block;
use crate::http::{Error, Response, redirect};

/// A request to a host that the topic grants.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    timeout: Option<Duration>,
    follow: u32,
}

impl Request {
    /// Creates a request with this method, without headers and body. `url` is an absolute http or
    /// https URL without user information.
    pub fn new(method: &str, url: &str) -> Self {
        let (method, url) = (method.to_owned(), url.to_owned());
        Self { method, url, headers: Vec::new(), body: Vec::new(), timeout: None, follow: 0 }
    }

    /// Creates a GET request.
    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// Creates a HEAD request.
    pub fn head(url: &str) -> Self {
        Self::new("HEAD", url)
    }

    /// Creates a POST request.
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// Creates a PUT request.
    pub fn put(url: &str) -> Self {
        Self::new("PUT", url)
    }

    /// Creates a PATCH request.
    pub fn patch(url: &str) -> Self {
        Self::new("PATCH", url)
    }

    /// Creates a DELETE request.
    pub fn delete(url: &str) -> Self {
        Self::new("DELETE", url)
    }

    /// Sets a header and replaces one of the same name. The name has letters, digits and `. _ -`;
    /// the value has no control characters. The host sets `host`, `content-length` and other
    /// headers of the connection.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = name.to_ascii_lowercase();
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to a value as JSON and sets `content-type`.
    ///
    /// # Errors
    /// Fails if the value cannot be written as JSON.
    #[cfg(feature = "json")]
    pub fn json(self, value: &impl serde::Serialize) -> Result<Self, crate::JsonError> {
        let body = serde_json::to_vec(value)?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Sets how long the whole exchange may take, redirects included; at least 1 ms. The default
    /// and the maximum is the job's remaining time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many redirects are followed; the default is 0. Each hop must be granted like the
    /// first. A 303, and a 301 or 302 in response to a POST, is followed by a GET without body.
    /// `authorization` and `cookie` are not sent to another origin; other headers are. A redirect
    /// that is not followed, or one too many, is the response.
    pub fn follow(mut self, redirects: u32) -> Self {
        self.follow = redirects;
        self
    }

    /// Sends the request and waits for the whole response, whatever its status.
    ///
    /// # Errors
    /// [`Error`] if there is no response.
    pub fn send(self) -> Result<Response, Error> {
        let (timeout_ms, hops) = (self.timeout.map(millis), self.follow);
        let started = if hops > 0 { abi::meta_int(Meta::Now) } else { 0 };
        let mut request = self;
        let mut response = request.exchange(timeout_ms)?;
        for _ in 0..hops {
            let Some(next) = redirect::next(request, &response) else { break };
            let spent = abi::meta_int(Meta::Now).saturating_sub(started).max(0);
            let left = timeout_ms.map(|all| i64::from(all) - spent);
            if left.is_some_and(|left| left <= 0) {
                let why = format!("no time was left to follow a redirect to {}", next.origin());
                return Err(Error::Timeout(why));
            }
            request = next;
            response = request.exchange(left.and_then(|left| i32::try_from(left).ok()))?;
        }
        Ok(response)
    }

    /// Sends one hop; without a timeout it may take the job's remaining time.
    fn exchange(&self, timeout_ms: Option<i32>) -> Result<Response, Error> {
        match abi::http_send(&self.head_block()?, &self.body, timeout_ms.unwrap_or(0)) {
            status @ 100..=599 => {
                let (head, body) = (abi::http_read(Part::Head), abi::http_read(Part::Body));
                Ok(Response::read(status.unsigned_abs() as u16, &self.url, head, body))
            }
            error => {
                let why = abi::http_read(Part::Error);
                Err(Error::new(error, String::from_utf8_lossy(&why).into_owned()))
            }
        }
    }

    /// Method, URL and headers as a block for the host.
    fn head_block(&self) -> Result<String, Error> {
        if self.method.is_empty() || !self.method.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::Invalid(format!("invalid method {:?}", self.method)));
        }
        if self.url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Error::Invalid("the URL has a space or a control character".to_owned()));
        }
        let mut headers = Block::default();
        for (name, value) in &self.headers {
            let refused = |_| format!("the header {name:?} has an invalid name or value");
            headers.line(name, value).map_err(refused).map_err(Error::Invalid)?;
        }
        Ok(format!("{} {}\n{}", self.method, self.url, headers.into_text()))
    }

    fn origin(&self) -> &str {
        redirect::origin(&self.url).unwrap_or("another host")
    }

    /// The method.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The value of a header; the name is case-insensitive.
    pub fn header_value(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body
    }
}

/// The host takes 0 as the remaining time, so the minimum is 1.
fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1)
}
