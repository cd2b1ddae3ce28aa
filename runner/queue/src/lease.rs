//! A lease: a runner's claim on one job, fenced by a token.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use redis::{Cmd, Value};

use crate::keys::TopicKeys;
use crate::reply::{array, bytes, count, score, text, unexpected};
use crate::script::LEASE;
use crate::{BATCH_MAX, QueueError};

/// Failures and crashes share one number in Redis: failures + this × crashes (docs/queue.md, "Keys").
const CRASH: u64 = 1_000_000;

/// What fences a lease: its expiry in µs on Redis' clock, as Redis writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Bytes);

impl Token {
    pub(crate) fn new(text: Bytes) -> Self {
        Self(text)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The token of a lease that expires then; one that no lease has is answered with `lost`.
    pub fn expiring_at_us(us: u64) -> Self {
        Self(Bytes::from(us.to_string()))
    }

    /// When a lease with this token expires, by Redis' clock, in µs since the epoch.
    pub fn expires_at_us(&self) -> u64 {
        std::str::from_utf8(&self.0).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// One leased job. Settling takes it by value, so that it cannot be settled twice.
#[derive(Debug)]
pub struct Lease {
    /// The job's id.
    pub id: JobId,
    /// What fences the lease; extending it makes a new one.
    pub token: Token,
    /// When the job fell due, unix ms.
    pub due_at_ms: u64,
    /// The payload as it was pushed.
    pub payload: Bytes,
    /// The job's own options, or why they cannot be read.
    pub options: Result<Options, String>,
    /// Attempts that have failed so far.
    pub failures: u32,
    /// Runs that ended with the runner's death, or a lost lease.
    pub crashes: u32,
}

/// A wish for jobs.
#[derive(Debug, Clone)]
pub struct LeaseCall {
    /// Jobs wanted, 1 to [`BATCH_MAX`].
    pub jobs: usize,
    /// How long the lease holds without being extended, 1 ms to one day.
    pub lease: Duration,
    /// Names this call; repeating it under the same id after a lost reply gives the same jobs.
    pub call_id: String,
}

/// What a lease call gave.
#[derive(Debug)]
pub enum Leased {
    /// These jobs, and how many ready entries were withdrawn as superseded or without a payload.
    /// With no jobs but some withdrawn there may be more: ask again.
    Jobs(Vec<Lease>, u64),
    /// Nothing is ready.
    Empty,
    /// The topic is paused.
    Paused,
}

impl LeaseCall {
    pub(crate) fn command(&self, keys: &TopicKeys) -> Cmd {
        let mut call = LEASE.call(keys);
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        call.arg(self.jobs.min(BATCH_MAX)).arg(lease_ms).arg(&self.call_id);
        call
    }
}

impl Leased {
    pub(crate) fn read(answer: Value) -> Result<Self, QueueError> {
        let fields = array(answer)?;
        let Some(word) = fields.first() else {
            return Err(unexpected(&Value::Array(fields)));
        };
        match text(word)? {
            "empty" => Ok(Self::Empty),
            "paused" => Ok(Self::Paused),
            "ok" | "again" if fields.len() >= 3 && fields.len() % 5 == 3 => Self::read_jobs(fields),
            _ => Err(unexpected(&Value::Array(fields))),
        }
    }

    fn read_jobs(fields: Vec<Value>) -> Result<Self, QueueError> {
        let mut leases = Vec::with_capacity(fields.len() / 5);
        let mut fields = fields.into_iter().skip(1);
        let mut next = || fields.next().ok_or_else(|| QueueError::Answer("cut short".to_owned()));
        let token = Token::new(bytes(next()?)?);
        let withdrawn = count(&next()?)?;
        for _ in 0..leases.capacity() {
            leases.push(Lease {
                id: JobId::from_redis(bytes(next()?)?),
                token: token.clone(),
                due_at_ms: score(text(&next()?)?),
                payload: bytes(next()?)?,
                options: Options::from_json(&bytes(next()?)?),
                failures: 0,
                crashes: 0,
            });
            let attempts = score(text(&next()?)?);
            if let (Some(lease), 1..) = (leases.last_mut(), attempts) {
                lease.failures = u32::try_from(attempts % CRASH).unwrap_or(u32::MAX);
                lease.crashes = u32::try_from(attempts / CRASH).unwrap_or(u32::MAX);
            }
        }
        Ok(Self::Jobs(leases, withdrawn))
    }
}
