//! W3C Trace Context headers of what a job sends, for an attempt that is not recorded itself.

use std::collections::BTreeMap;

use rand::RngExt as _;

pub(crate) const TRACEPARENT: &str = "traceparent";
pub(crate) const TRACESTATE: &str = "tracestate";

/// The trace that a job's requests belong to.
#[derive(Debug)]
pub(crate) struct TraceContext {
    /// 32 hexadecimal digits.
    trace_id: String,
    /// 2 hexadecimal digits.
    flags: String,
    pub(crate) state: Option<String>,
}

impl TraceContext {
    /// The trace of a job's headers, or a new trace if they have none.
    pub(crate) fn of_job(headers: &BTreeMap<String, String>) -> Self {
        match headers.get(TRACEPARENT).and_then(|header| Self::parse(header)) {
            Some(context) => Self { state: headers.get(TRACESTATE).cloned(), ..context },
            None => {
                let trace_id = format!("{:032x}", rand::rng().random_range(1..=u128::MAX));
                Self { trace_id, flags: "01".to_owned(), state: None }
            }
        }
    }

    /// Whether a header is a valid `traceparent`.
    pub(crate) fn is_valid(traceparent: &str) -> bool {
        Self::parse(traceparent).is_some()
    }

    /// Parses a `traceparent`: version, trace, span and flags. Later versions may have more fields.
    fn parse(traceparent: &str) -> Option<Self> {
        let mut fields = traceparent.split('-');
        let (version, trace_id) = (fields.next()?, fields.next()?);
        let (span, flags) = (fields.next()?, fields.next()?);
        let has_more = fields.next().is_some();
        let well_formed =
            is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(span, 16) && is_hex(flags, 2);
        let all_zero = |digits: &str| digits.bytes().all(|digit| digit == b'0');
        let reserved = version == "ff" || (version == "00" && has_more);
        if !well_formed || reserved || all_zero(trace_id) || all_zero(span) {
            return None;
        }
        Some(Self { trace_id: trace_id.to_owned(), flags: flags.to_owned(), state: None })
    }

    /// The `traceparent` of the next request, with a new span id.
    pub(crate) fn next_traceparent(&self) -> String {
        let span = rand::rng().random_range(1..=u64::MAX);
        format!("00-{}-{span:016x}-{}", self.trace_id, self.flags)
    }
}

/// Whether a text is this many lower-case hexadecimal digits.
fn is_hex(text: &str, length: usize) -> bool {
    let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == length && text.bytes().all(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_traceparent_is_continued() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let good = format!("00-{id}-b7ad6b7169203331-00");
        let context = TraceContext::parse(&good).unwrap();
        assert_eq!((context.trace_id.as_str(), context.flags.as_str()), (id, "00"));
        let next = context.next_traceparent();
        assert!(next.starts_with(&format!("00-{id}-")) && next.ends_with("-00"), "{next}");
        assert_ne!(next, good);
        assert!(TraceContext::parse(&next).is_some(), "{next}");
        assert!(TraceContext::parse(&format!("01-{id}-b7ad6b7169203331-01-more")).is_some());
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
            assert!(TraceContext::parse(bad).is_none(), "{bad}");
        }
    }
}
