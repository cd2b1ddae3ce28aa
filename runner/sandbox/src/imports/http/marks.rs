//! What every request says about the job it is sent for: its place in a trace, a key that is the same at each
//! attempt, and which attempt it is. A handler may set the first two itself, the attempt is the host's word.

use std::fmt::Write as _;

use duebox_job::{JobId, TopicName};
use rand::RngExt as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::imports::spans::Span;
use crate::invocation::Invocation;

/// Which attempt the request is part of.
pub(super) const ATTEMPT: &str = "duebox-attempt";
const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";

/// Adds the marks that the guest has not set. `trace` is that of the job, begun with its first request if the
/// job came without one.
/// `own` is the place of the attempt and of this request, where they are recorded.
pub(super) fn add(
    headers: &mut HeaderMap,
    job: &Invocation,
    trace: &mut Option<Trace>,
    own: Option<(&Span, u64)>,
) {
    set(headers, ATTEMPT, &job.attempt.to_string());
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        set(headers, IDEMPOTENCY_KEY, &idempotency_key(&job.topic, &job.id));
    }
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    let (parent, state) = match own {
        Some((span, request)) => (span.parent_of(request), Some(span.state.as_str())),
        None => {
            let trace = trace.get_or_insert_with(|| Trace::of(job));
            (trace.parent(), trace.state.as_deref())
        }
    };
    set(headers, TRACEPARENT, &parent);
    if let Some(state) = state.filter(|state| !state.is_empty())
        && !headers.contains_key(TRACESTATE)
    {
        set(headers, TRACESTATE, state);
    }
}

/// Sets a header whose value is known to be one that can be sent; another would be left out.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// `topic/id`; bytes that a header does not carry safely, and the percent sign that marks them, as `%XX`.
fn idempotency_key(topic: &TopicName, id: &JobId) -> String {
    let mut key = String::new();
    for byte in topic.as_str().bytes().chain([b'/']).chain(id.as_bytes().iter().copied()) {
        if byte.is_ascii_graphic() && byte != b'%' {
            key.push(byte.into());
        } else if write!(key, "%{byte:02X}").is_err() {
            break;
        }
    }
    key
}

/// The trace that a job's requests belong to.
#[derive(Debug)]
pub(crate) struct Trace {
    /// 32 digits.
    id: String,
    /// 2 digits.
    flags: String,
    state: Option<String>,
}

impl Trace {
    /// The job's own, if its headers carry one; else a new one.
    fn of(job: &Invocation) -> Self {
        let given = job.headers.get(TRACEPARENT).and_then(|parent| Self::read(parent));
        match given {
            Some(trace) => Self { state: job.headers.get(TRACESTATE).cloned(), ..trace },
            None => Self { id: hex(16), flags: "01".to_owned(), state: None },
        }
    }

    /// Whether this is a `traceparent`.
    pub(crate) fn is_one(parent: &str) -> bool {
        Self::read(parent).is_some()
    }

    /// Reads a `traceparent` as W3C Trace Context has it: version, trace, span, flags, and in later versions
    /// more after them.
    fn read(parent: &str) -> Option<Self> {
        let mut fields = parent.split('-');
        let (version, id) = (fields.next()?, fields.next()?);
        let (span, flags) = (fields.next()?, fields.next()?);
        let more = fields.next().is_some();
        let whole = is_hex(version, 2) && is_hex(id, 32) && is_hex(span, 16) && is_hex(flags, 2);
        let nothing = |digits: &str| digits.bytes().all(|digit| digit == b'0');
        if !whole || version == "ff" || (version == "00" && more) || nothing(id) || nothing(span) {
            return None;
        }
        Some(Self { id: id.to_owned(), flags: flags.to_owned(), state: None })
    }

    /// The header of the next request, which is a span of its own.
    fn parent(&self) -> String {
        format!("00-{}-{}-{}", self.id, hex(8), self.flags)
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == length && text.bytes().all(lower)
}

/// So many bytes drawn at random, as digits.
fn hex(bytes: usize) -> String {
    let drawn = (0..bytes).map(|_| rand::rng().random::<u8>());
    drawn.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_one_word_and_tells_jobs_apart() {
        let topic = TopicName::new("order.close").unwrap();
        for (id, key) in [
            (&b"42"[..], "order.close/42"),
            (b"a/b:c", "order.close/a/b:c"),
            (b"50%", "order.close/50%25"),
            (b"a b\xff\n", "order.close/a%20b%FF%0A"),
        ] {
            assert_eq!(idempotency_key(&topic, &JobId::from_redis(id.to_vec())), key);
        }
    }

    #[test]
    fn a_trace_is_taken_up_only_if_it_is_one() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{id}-b7ad6b7169203331-00");
        let trace = Trace::read(&good).unwrap();
        assert_eq!((trace.id.as_str(), trace.flags.as_str()), (id, "00"));
        let next = trace.parent();
        assert!(next.starts_with(&format!("00-{id}-")) && next.ends_with("-00"), "{next}");
        assert_ne!(next, good);
        assert!(Trace::read(&next).is_some(), "{next}");
        assert!(Trace::read(&format!("01-{id}-b7ad6b7169203331-01-more")).is_some());
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        ] {
            assert!(Trace::read(bad).is_none(), "{bad}");
        }
    }
}
