//! Runs a handler natively, in an ordinary `#[test]`, on a job built by the test.
//!
//! ```
//! use duebox_sdk::testing::TestJob;
//! use duebox_sdk::{Job, Verdict};
//!
//! fn handle(job: Job) -> Verdict {
//!     if job.attempt() < 3 { Verdict::nack("not yet") } else { Verdict::Ack }
//! }
//!
//! assert_eq!(TestJob::new("{}").run(handle).verdict, Verdict::nack("not yet"));
//! assert_eq!(TestJob::new("{}").attempt(3).run(handle).verdict, Verdict::Ack);
//! ```
//!
//! Each thread has its own test host, so tests may run in parallel.

mod pushes;
mod server;
mod store;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use self::pushes::Pushes;
use self::server::Server;
use self::store::Store;
use crate::http::{Error, Request, Response};
use crate::{FollowUp, IntoVerdict, Job, Level, Verdict};

thread_local! {
    static HOST: RefCell<TestJob> = RefCell::new(TestJob::new(""));
}

/// A job built by a test. Defaults: id `test`, topic `test`, attempt 1 of 8, due now, 30 s to run.
#[derive(Debug, Clone)]
pub struct TestJob {
    payload: Vec<u8>,
    id: String,
    topic: String,
    attempt: u32,
    max_attempts: u32,
    due_at_ms: u64,
    now_ms: u64,
    ttr: Duration,
    headers: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
    logs: Vec<(Level, String)>,
    pushes: Pushes,
    server: Server,
    store: Store,
    result: Option<Vec<u8>>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRun {
    /// The handler's verdict.
    pub verdict: Verdict,
    /// Its log lines, in order.
    pub logs: Vec<(Level, String)>,
    /// The follow-up jobs in order; empty unless the handler acked.
    pub follow_ups: Vec<FollowUp>,
    /// The result to keep with the job; `None` unless the handler acked.
    pub result: Option<Vec<u8>>,
    /// The requests it sent, in order.
    pub requests: Vec<Request>,
    /// The contents of the topic's store after the run.
    pub store: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl TestJob {
    /// Creates a job with this payload.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        let now_ms = 1_764_000_000_000;
        Self {
            payload: payload.into(),
            id: "test".to_owned(),
            topic: "test".to_owned(),
            attempt: 1,
            max_attempts: 8,
            due_at_ms: now_ms,
            now_ms,
            ttr: Duration::from_secs(30),
            headers: BTreeMap::new(),
            config: BTreeMap::new(),
            logs: Vec::new(),
            pushes: Pushes::default(),
            server: Server::default(),
            store: Store::default(),
            result: None,
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        id.clone_into(&mut self.id);
        self
    }

    /// Sets the topic.
    #[must_use]
    pub fn topic(mut self, topic: &str) -> Self {
        topic.clone_into(&mut self.topic);
        self
    }

    /// Sets the number of the attempt, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the number of attempts in total.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Sets the due time, in unix milliseconds.
    #[must_use]
    pub fn due_at_ms(mut self, due_at_ms: u64) -> Self {
        self.due_at_ms = due_at_ms;
        self
    }

    /// Sets the host's clock, in unix milliseconds.
    #[must_use]
    pub fn now_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Sets how long the attempt may run.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = ttr;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds a configuration value: strings as they are, other values as JSON text.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds a topic, or a prefix followed by `*`, that the handler may push to, as `sandbox.push`
    /// does. Without any the handler may push to all topics.
    #[must_use]
    pub fn may_push(mut self, topic: &str) -> Self {
        self.pushes.allowed.push(topic.to_owned());
        self
    }

    /// Sets the function that responds to the handler's requests. Without it every request fails
    /// with [`Error::Unavailable`].
    #[must_use]
    pub fn server(
        mut self,
        respond: impl Fn(&Request) -> Result<Response, Error> + 'static,
    ) -> Self {
        self.server.respond_with(respond);
        self
    }

    /// Adds a value to the topic's store.
    #[must_use]
    pub fn stored(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.store.values.insert(key.into(), value.into());
        self
    }

    /// Makes the next `times` writes of [`kv::set_if_unchanged`](crate::kv::set_if_unchanged) fail,
    /// as if another job had written the key.
    #[must_use]
    pub fn store_is_contended(mut self, times: u32) -> Self {
        self.store.conflicts = times;
        self
    }

    /// Runs a handler on the job.
    pub fn run<V: IntoVerdict>(self, handle: impl FnOnce(Job) -> V) -> TestRun {
        let payload_len = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        HOST.set(self);
        let verdict = handle(Job::new(payload_len)).into_verdict();
        let Self { logs, pushes, server, store, result, .. } = HOST.take();
        let acked = verdict == Verdict::Ack;
        let follow_ups = if acked { pushes.taken } else { Vec::new() };
        let result = result.filter(|_| acked);
        let (requests, store) = (server.requests, store.values);
        TestRun { verdict, logs, follow_ups, result, requests, store }
    }
}

impl Default for TestJob {
    fn default() -> Self {
        Self::new("")
    }
}

/// The imports of the ABI on a native target.
pub(crate) mod imports {
    use super::HOST;
    use crate::Level;
    use crate::abi::{Meta, Mode, Part, code};

    pub(crate) fn payload_read(offset: u32, into: &mut [u8]) -> usize {
        HOST.with_borrow(|job| {
            let rest = job.payload.get(offset as usize..).unwrap_or_default();
            copy(rest, into)
        })
    }

    pub(crate) fn meta_read(key: Meta, into: &mut [u8]) -> i32 {
        let value = HOST.with_borrow(|job| match key {
            Meta::Id => job.id.clone(),
            Meta::Topic => job.topic.clone(),
            Meta::Headers => {
                job.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
            }
            number => meta_int(number).to_string(),
        });
        copy_whole(Some(value.as_bytes()), into)
    }

    pub(crate) fn meta_int(key: Meta) -> i64 {
        let ttr_ms = |job: &super::TestJob| u64::try_from(job.ttr.as_millis()).unwrap_or(u64::MAX);
        let value = HOST.with_borrow(|job| match key {
            Meta::Attempt => u64::from(job.attempt),
            Meta::MaxAttempts => u64::from(job.max_attempts),
            Meta::DueAt => job.due_at_ms,
            Meta::Deadline => job.now_ms.saturating_add(ttr_ms(job)),
            Meta::Now => job.now_ms,
            Meta::TimeLeft => ttr_ms(job),
            Meta::Id | Meta::Topic | Meta::Headers => u64::MAX,
        });
        i64::try_from(value).unwrap_or(-1)
    }

    pub(crate) fn config_read(name: &str, into: &mut [u8]) -> i32 {
        HOST.with_borrow(|job| copy_whole(job.config.get(name).map(String::as_bytes), into))
    }

    /// Random bytes that differ in every run, without a dependency.
    pub(crate) fn random(into: &mut [u8]) {
        use std::hash::{BuildHasher, RandomState};
        for (index, byte) in into.iter_mut().enumerate() {
            let [first, ..] = RandomState::new().hash_one(index).to_le_bytes();
            *byte = first;
        }
    }

    /// The verdict itself contains the delay.
    pub(crate) fn retry_after(_ms: i64) {}

    /// The verdict itself contains the delay.
    pub(crate) fn snooze(_ms: i64) {}

    pub(crate) fn result(bytes: &[u8]) -> i32 {
        if bytes.len() > 64 << 10 {
            return code::TOO_LARGE;
        }
        HOST.with_borrow_mut(|job| job.result = Some(bytes.to_vec()));
        0
    }

    pub(crate) fn push(head: &str, body: &[u8]) -> i32 {
        HOST.with_borrow_mut(|job| job.pushes.push(head, body))
    }

    /// Calls the responding function while the host is not borrowed, because it may log.
    pub(crate) fn http_send(head: &str, body: &[u8], _timeout_ms: i32) -> i32 {
        let request = super::server::read(head, body);
        let respond = HOST.with_borrow_mut(|job| job.server.take(request.clone()));
        let response = respond(&request);
        HOST.with_borrow_mut(|job| job.server.keep(response))
    }

    pub(crate) fn http_read(part: Part, offset: u32, into: &mut [u8]) -> usize {
        HOST.with_borrow(|job| {
            let rest = job.server.part(part).get(offset as usize..).unwrap_or_default();
            copy(rest, into)
        })
    }

    pub(crate) fn kv_get(key: &[u8], into: &mut [u8]) -> i32 {
        HOST.with_borrow_mut(|job| match job.store.get(key) {
            Ok(value) => copy_whole(value, into),
            Err(refused) => refused,
        })
    }

    pub(crate) fn kv_set(key: &[u8], value: &[u8], ttl_ms: i64, mode: Mode) -> i32 {
        code_of(HOST.with_borrow_mut(|job| job.store.set(key, value, ttl_ms, mode)))
    }

    pub(crate) fn kv_delete(key: &[u8]) -> i32 {
        code_of(HOST.with_borrow_mut(|job| job.store.delete(key)))
    }

    pub(crate) fn kv_add(key: &[u8], delta: i64, into: &mut [u8; 8]) -> i32 {
        code_of(HOST.with_borrow_mut(|job| {
            *into = job.store.add(key, delta)?.to_le_bytes();
            Ok(())
        }))
    }

    fn code_of(done: Result<(), i32>) -> i32 {
        done.err().unwrap_or(0)
    }

    /// The verdict itself contains the reason.
    pub(crate) fn reason(_text: &str) {}

    pub(crate) fn log(level: Level, text: &str) {
        HOST.with_borrow_mut(|job| job.logs.push((level, text.to_owned())));
    }

    fn copy_whole(value: Option<&[u8]>, into: &mut [u8]) -> i32 {
        let Some(value) = value else { return code::NOT_FOUND };
        copy(value, into);
        i32::try_from(value.len()).unwrap_or(i32::MAX)
    }

    fn copy(from: &[u8], into: &mut [u8]) -> usize {
        let len = from.len().min(into.len());
        into[..len].copy_from_slice(&from[..len]);
        len
    }
}
