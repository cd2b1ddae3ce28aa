//! The steps that send requests and read the last response.

use std::time::Duration;

use duebox_sdk::http::{Error, Request, Response};
use duebox_sdk::{Job, Verdict, info};
use serde::Deserialize;

/// The last response.
pub(crate) struct Network {
    pub(crate) last: Response,
}

impl Default for Network {
    fn default() -> Self {
        Self { last: Response::new(200) }
    }
}

#[derive(Deserialize)]
struct Item {
    name: String,
    count: u32,
}

impl Network {
    /// Runs a step; returns false for a step that is not of this file.
    pub(crate) fn step(&mut self, job: &Job, step: &str, rest: &str) -> Result<bool, Verdict> {
        match step {
            "send" => match request(job, rest)?.send() {
                Ok(response) => self.answered(response),
                Err(error) => info!("failed {}", kind(&error)),
            },
            "must" => self.answered(request(job, rest)?.send()?),
            "header" => match self.last.header(rest) {
                Some(value) => info!("header {rest}={value}"),
                None => info!("header {rest} absent"),
            },
            "names" => {
                let names: Vec<_> = self.last.headers().map(|(name, _)| name).collect();
                info!("names {}", names.iter().filter(|name| **name == rest).count());
            }
            "body" => match self.last.text() {
                Ok(text) => info!("body {text}"),
                Err(_) => info!("the body is not UTF-8"),
            },
            "hex" => {
                let digits: String =
                    self.last.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
                info!("hex {digits}");
            }
            "sum" => {
                let add = |sum: u32, byte: &u8| sum.wrapping_mul(31).wrapping_add((*byte).into());
                info!("sum {}", self.last.bytes().iter().fold(0, add));
            }
            "json" => match self.last.json::<Item>() {
                Ok(item) => info!("json name={} count={}", item.name, item.count),
                Err(_) => info!("the body is not the expected JSON"),
            },
            "url" => info!("url {}", self.last.url()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn answered(&mut self, response: Response) {
        info!("answered {}, {} bytes", response.status(), response.bytes().len());
        self.last = response;
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Denied(_) => "denied",
        Error::Invalid(_) => "invalid",
        Error::TooLarge(_) => "too large",
        Error::Timeout(_) => "timeout",
        _ => "unavailable",
    }
}

/// Parses `METHOD URL|name=value|…`. The value `$` stands for the payload.
fn request(job: &Job, rest: &str) -> Result<Request, Verdict> {
    let mut parts = rest.split('|');
    let (method, url) = parts.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let mut request = Request::new(method, url);
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        request = match name {
            "body" if value == "$" => request.body(job.payload()),
            "body" => request.body(value),
            "size" => request.body(vec![b'x'; value.parse()?]),
            "timeout" => request.timeout(Duration::from_millis(value.parse()?)),
            "follow" => request.follow(value.parse()?),
            header if value == "$" => request.header(header.trim_start_matches("h."), &job.text()?),
            header => request.header(header.trim_start_matches("h."), value),
        };
    }
    Ok(request)
}
