//! The interceptor of a run: it sees each call by which a guest reads what another run would not read again
//! (the clock, random bytes, HTTP responses, the store), and may answer in place of the host.
//!
//! Trial runs fix the clock and the random bytes with it, recorded runs keep the answers, and a replay gives
//! them back. A run without an interceptor tests one pointer in each of these calls.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::imports::fault::Fault;
use crate::imports::kv::store::{KvCondition, KvEntry, KvError};

/// Sees what a guest reads from the host. It is called on the guest's thread and must not block.
pub trait Interceptor: Send + Sync {
    /// A call begins. With an answer, the host is not asked.
    fn answer(&self, request: &HostRequest<'_>) -> Option<HostAnswer>;

    /// The host has answered a call for which [`answer`](Self::answer) returned `None`.
    fn answered(&self, request: &HostRequest<'_>, answer: &HostAnswer);

    /// Fills with random bytes. Returns `false` if the host is to draw them. By default they are the
    /// [`answer`](Self::answer).
    fn fill_random(&self, target: &mut [u8]) -> bool {
        let Some(HostAnswer::Random(bytes)) = self.answer(&HostRequest::Random(target.len()))
        else {
            return false;
        };
        let count = bytes.len().min(target.len());
        target[..count].copy_from_slice(&bytes[..count]);
        target[count..].fill(0);
        true
    }
}

/// What a guest asks the host for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostRequest<'a> {
    /// A time or a span of time.
    Clock(HostClock),
    /// This many random bytes.
    Random(usize),
    /// The config value of this name. The host answers it; the interceptor only sees the name.
    Config(&'a str),
    /// An HTTP request that the topic's grants cover.
    Http {
        /// The method.
        method: &'a str,
        /// The absolute URL.
        url: &'a str,
        /// The body.
        body: &'a [u8],
    },
    /// The value of a key.
    KvGet(&'a [u8]),
    /// A write.
    KvSet {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// When the value expires, if it does.
        ttl: Option<Duration>,
        /// When the value is written.
        condition: KvCondition,
    },
    /// The removal of a key.
    KvDelete(&'a [u8]),
    /// An addition to a number.
    KvAdd {
        /// The key.
        key: &'a [u8],
        /// What is added.
        delta: i64,
    },
}

/// The clocks that a guest can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostClock {
    /// The time in Unix milliseconds.
    Now,
    /// The deadline of the attempt in Unix milliseconds.
    Deadline,
    /// The milliseconds until the deadline.
    Remaining,
    /// The nanoseconds since the instance started.
    Elapsed,
    /// The time in nanoseconds since 1970, for WASI.
    WasiWall,
    /// The monotonic clock in nanoseconds, for WASI.
    WasiMonotonic,
}

/// What a guest receives.
#[derive(Debug, Clone, PartialEq)]
pub enum HostAnswer {
    /// The value of a clock.
    Clock(u64),
    /// Random bytes, as many as were asked for. Missing bytes are 0.
    Random(Bytes),
    /// The result of an HTTP request.
    Http(Result<HttpResponse, HttpFailure>),
    /// The value of a key.
    KvEntry(Result<Option<KvEntry>, KvError>),
    /// Whether a write or a removal took place.
    KvDone(Result<bool, KvError>),
    /// The sum of an addition.
    KvSum(Result<i64, KvError>),
    /// There is no answer: the guest traps with this text. Only for HTTP and the store.
    Stop(String),
}

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status, from 100 to 599.
    pub status: u16,
    /// The headers as a block (docs/reference/abi.md): a line `name: value` for each, names in lower case.
    pub headers: String,
    /// The body.
    pub body: Bytes,
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpFailure {
    /// The error code of docs/reference/abi.md, such as -6 for "unavailable".
    pub code: i32,
    /// The text that the guest can read.
    pub text: String,
}

/// The interceptor of a run, if it has one.
pub(crate) type MaybeInterceptor = Option<Arc<dyn Interceptor>>;

/// The value of a clock.
pub(crate) fn clock(
    interceptor: Option<&Arc<dyn Interceptor>>,
    clock: HostClock,
    host: impl FnOnce() -> u64,
) -> u64 {
    let Some(interceptor) = interceptor else { return host() };
    let request = HostRequest::Clock(clock);
    if let Some(HostAnswer::Clock(value)) = interceptor.answer(&request) {
        return value;
    }
    let value = host();
    interceptor.answered(&request, &HostAnswer::Clock(value));
    value
}

/// The result of a call that waits: the interceptor's, or else the host's.
pub(crate) async fn result<T>(
    interceptor: MaybeInterceptor,
    request: HostRequest<'_>,
    host: impl Future<Output = T>,
) -> Result<T, Fault>
where
    T: Into<HostAnswer> + TryFrom<HostAnswer, Error = HostAnswer> + Clone,
{
    let Some(interceptor) = interceptor else { return Ok(host.await) };
    match interceptor.answer(&request).map(T::try_from) {
        Some(Ok(result)) => return Ok(result),
        Some(Err(HostAnswer::Stop(reason))) => return Err(Fault::NoAnswer(reason)),
        Some(Err(_)) | None => {}
    }
    let result = host.await;
    interceptor.answered(&request, &result.clone().into());
    Ok(result)
}

/// Converts the results of the store from and to answers.
macro_rules! answers {
    ($($kind:ident: $type:ty),* $(,)?) => {
        $(impl From<$type> for HostAnswer {
            fn from(result: $type) -> Self {
                Self::$kind(result)
            }
        }

        impl TryFrom<HostAnswer> for $type {
            type Error = HostAnswer;

            fn try_from(answer: HostAnswer) -> Result<Self, HostAnswer> {
                match answer {
                    HostAnswer::$kind(result) => Ok(result),
                    other => Err(other),
                }
            }
        })*
    };
}

answers! {
    KvEntry: Result<Option<KvEntry>, KvError>,
    KvDone: Result<bool, KvError>,
    KvSum: Result<i64, KvError>,
}
