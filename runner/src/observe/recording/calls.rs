//! What an attempt asks the host and what it receives, in the form in which a recording stores it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use duebox_sandbox::{
    HostAnswer, HostClock, HostRequest, HttpFailure, HttpResponse, KvCondition, KvEntry, KvError,
};
use serde::{Deserialize, Serialize};

use crate::millis::millis;

/// One thing that an attempt read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Call {
    Clock {
        clock: Clock,
        value: u64,
    },
    Random {
        random: Data,
    },
    /// Without an answer, the attempt ended while it waited.
    Asked {
        request: Request,
        answer: Option<Answer>,
    },
}

impl Call {
    pub(super) fn map(self, bytes: &dyn Fn(&[u8]) -> Vec<u8>) -> Self {
        match self {
            Self::Asked { request, answer } => Self::Asked {
                request: request.map(bytes),
                answer: answer.map(|answer| answer.map(bytes)),
            },
            other => other,
        }
    }
}

/// A clock by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Clock {
    Now,
    Deadline,
    Remaining,
    Elapsed,
    WasiWall,
    WasiMonotonic,
}

impl From<HostClock> for Clock {
    fn from(clock: HostClock) -> Self {
        match clock {
            HostClock::Now => Self::Now,
            HostClock::Deadline => Self::Deadline,
            HostClock::Remaining => Self::Remaining,
            HostClock::Elapsed => Self::Elapsed,
            HostClock::WasiWall => Self::WasiWall,
            HostClock::WasiMonotonic => Self::WasiMonotonic,
        }
    }
}

/// Bytes: a string in JSON if they are UTF-8, else an object with base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "DataJson", into = "DataJson")]
pub(super) struct Data(pub(super) Bytes);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum DataJson {
    Text(String),
    Base64 { base64: String },
}

impl From<Data> for DataJson {
    fn from(Data(bytes): Data) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Base64 { base64: STANDARD.encode(error.as_bytes()) },
        }
    }
}

impl From<DataJson> for Data {
    fn from(json: DataJson) -> Self {
        Self(match json {
            DataJson::Text(text) => Bytes::from(text),
            DataJson::Base64 { base64 } => STANDARD.decode(base64).unwrap_or_default().into(),
        })
    }
}

impl Data {
    pub(super) fn copy(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    pub(super) fn map(self, bytes: &dyn Fn(&[u8]) -> Vec<u8>) -> Self {
        Self(bytes(&self.0).into())
    }

    fn shown(&self) -> String {
        const SHOWN_MAX: usize = 60;
        let text = String::from_utf8_lossy(&self.0);
        match text.len() > SHOWN_MAX {
            true => format!("{}…", &text[..text.floor_char_boundary(SHOWN_MAX)]),
            false => text.into_owned(),
        }
    }
}

/// What an attempt asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    Http { method: String, url: String, body: Data },
    KvGet { key: Data },
    KvSet { key: Data, value: Data, ttl_ms: Option<u64>, condition: Condition },
    KvDelete { key: Data },
    KvAdd { key: Data, delta: i64 },
}

/// When a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Condition {
    Always,
    IfAbsent,
    IfRevision(u64),
}

impl Request {
    /// The request; `None` for clocks, random bytes and config.
    pub(super) fn of(request: &HostRequest<'_>) -> Option<Self> {
        Some(match *request {
            HostRequest::Clock(_) | HostRequest::Random(_) | HostRequest::Config(_) => return None,
            HostRequest::Http { method, url, body } => Self::Http {
                method: method.to_owned(),
                url: url.to_owned(),
                body: Data::copy(body),
            },
            HostRequest::KvGet(key) => Self::KvGet { key: Data::copy(key) },
            HostRequest::KvSet { key, value, ttl, condition } => Self::KvSet {
                key: Data::copy(key),
                value: Data::copy(value),
                ttl_ms: ttl.map(millis),
                condition: match condition {
                    KvCondition::Always => Condition::Always,
                    KvCondition::IfAbsent => Condition::IfAbsent,
                    KvCondition::IfRevision(revision) => Condition::IfRevision(revision),
                },
            },
            HostRequest::KvDelete(key) => Self::KvDelete { key: Data::copy(key) },
            HostRequest::KvAdd { key, delta } => Self::KvAdd { key: Data::copy(key), delta },
        })
    }

    pub(super) fn map(self, bytes: &dyn Fn(&[u8]) -> Vec<u8>) -> Self {
        let text = |text: String| String::from_utf8_lossy(&bytes(text.as_bytes())).into_owned();
        match self {
            Self::Http { method, url, body } => {
                Self::Http { method, url: text(url), body: body.map(bytes) }
            }
            Self::KvGet { key } => Self::KvGet { key: key.map(bytes) },
            Self::KvSet { key, value, ttl_ms, condition } => {
                Self::KvSet { key: key.map(bytes), value: value.map(bytes), ttl_ms, condition }
            }
            Self::KvDelete { key } => Self::KvDelete { key: key.map(bytes) },
            Self::KvAdd { key, delta } => Self::KvAdd { key: key.map(bytes), delta },
        }
    }

    /// Whether both ask the same of the same key or URL, perhaps with other content.
    pub(super) fn has_target_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http { method, url, .. }, Self::Http { method: other, url: at, .. }) => {
                method == other && url == at
            }
            (Self::KvGet { key }, Self::KvGet { key: other })
            | (Self::KvSet { key, .. }, Self::KvSet { key: other, .. })
            | (Self::KvDelete { key }, Self::KvDelete { key: other })
            | (Self::KvAdd { key, .. }, Self::KvAdd { key: other, .. }) => key == other,
            _ => false,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Http { url, body, .. } => url.len() + body.0.len(),
            Self::KvSet { key, value, .. } => key.0.len() + value.0.len(),
            Self::KvGet { key } | Self::KvDelete { key } | Self::KvAdd { key, .. } => key.0.len(),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { method, url, body } if body.0.is_empty() => write!(f, "{method} {url}"),
            Self::Http { method, url, body } => write!(f, "{method} {url} {}", body.shown()),
            Self::KvGet { key } => write!(f, "kv_get {}", key.shown()),
            Self::KvSet { key, value, .. } => {
                write!(f, "kv_set {} = {}", key.shown(), value.shown())
            }
            Self::KvDelete { key } => write!(f, "kv_delete {}", key.shown()),
            Self::KvAdd { key, delta } => write!(f, "kv_add {} {delta:+}", key.shown()),
        }
    }
}

/// What an attempt received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Response { status: u16, headers: String, body: Data },
    NoResponse { code: i32, text: String },
    Value { value: Data, revision: u64 },
    NoValue,
    Done(bool),
    Sum(i64),
    StoreFull(Kind),
    NotANumber(Kind),
    StoreUnavailable { kind: Kind, text: String },
}

/// Which call of the store failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Read,
    Write,
    Add,
}

impl Answer {
    /// The answer; `None` for clocks and random bytes.
    pub(super) fn of(answer: &HostAnswer) -> Option<Self> {
        let failed = |kind, error: &KvError| match error {
            KvError::Full => Self::StoreFull(kind),
            KvError::NotANumber => Self::NotANumber(kind),
            KvError::Unavailable(text) => Self::StoreUnavailable { kind, text: text.clone() },
        };
        Some(match answer {
            HostAnswer::Clock(_) | HostAnswer::Random(_) | HostAnswer::Stop(_) => return None,
            HostAnswer::Http(Ok(HttpResponse { status, headers, body })) => Self::Response {
                status: *status,
                headers: headers.clone(),
                body: Data(body.clone()),
            },
            HostAnswer::Http(Err(HttpFailure { code, text })) => {
                Self::NoResponse { code: *code, text: text.clone() }
            }
            HostAnswer::KvEntry(Ok(None)) => Self::NoValue,
            HostAnswer::KvEntry(Ok(Some(entry))) => {
                Self::Value { value: Data(entry.value.clone()), revision: entry.revision }
            }
            HostAnswer::KvEntry(Err(error)) => failed(Kind::Read, error),
            HostAnswer::KvDone(Ok(done)) => Self::Done(*done),
            HostAnswer::KvDone(Err(error)) => failed(Kind::Write, error),
            HostAnswer::KvSum(Ok(sum)) => Self::Sum(*sum),
            HostAnswer::KvSum(Err(error)) => failed(Kind::Add, error),
        })
    }

    pub(super) fn to_host(&self) -> HostAnswer {
        let failed = |kind: Kind, error: KvError| match kind {
            Kind::Read => HostAnswer::KvEntry(Err(error)),
            Kind::Write => HostAnswer::KvDone(Err(error)),
            Kind::Add => HostAnswer::KvSum(Err(error)),
        };
        match self {
            Self::Response { status, headers, body } => HostAnswer::Http(Ok(HttpResponse {
                status: *status,
                headers: headers.clone(),
                body: body.0.clone(),
            })),
            Self::NoResponse { code, text } => {
                HostAnswer::Http(Err(HttpFailure { code: *code, text: text.clone() }))
            }
            Self::Value { value, revision } => HostAnswer::KvEntry(Ok(Some(KvEntry {
                value: value.0.clone(),
                revision: *revision,
            }))),
            Self::NoValue => HostAnswer::KvEntry(Ok(None)),
            Self::Done(done) => HostAnswer::KvDone(Ok(*done)),
            Self::Sum(sum) => HostAnswer::KvSum(Ok(*sum)),
            Self::StoreFull(kind) => failed(*kind, KvError::Full),
            Self::NotANumber(kind) => failed(*kind, KvError::NotANumber),
            Self::StoreUnavailable { kind, text } => {
                failed(*kind, KvError::Unavailable(text.clone()))
            }
        }
    }

    pub(super) fn map(self, bytes: &dyn Fn(&[u8]) -> Vec<u8>) -> Self {
        let text = |text: String| String::from_utf8_lossy(&bytes(text.as_bytes())).into_owned();
        match self {
            Self::Response { status, headers, body } => {
                Self::Response { status, headers: text(headers), body: body.map(bytes) }
            }
            Self::Value { value, revision } => Self::Value { value: value.map(bytes), revision },
            Self::NoResponse { code, text: reason } => {
                Self::NoResponse { code, text: text(reason) }
            }
            other => other,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Response { headers, body, .. } => headers.len() + body.0.len(),
            Self::NoResponse { text, .. } | Self::StoreUnavailable { text, .. } => text.len(),
            Self::Value { value, .. } => value.0.len(),
            _ => 0,
        }
    }
}
