//! Decodes what the queue stores, from arbitrary bytes: follow-ups of the outbox, options, ids, places
//! of lists and of events, tokens, durations. What is decoded is the same after it is stored again.
#![no_main]

use bytes::Bytes;
use duebox_fuzz as _;
use duebox_job::{
    FollowUp, FollowUpDue, JobId, Options, Rate, TopicName, format_duration, parse_duration,
};
use duebox_queue::{Cursor, EventId, Token};
use libfuzzer_sys::fuzz_target;

/// A reason why something is refused says what and where, in at most so many bytes more than the input.
const REASON_MAX: usize = 4 << 10;

fuzz_target!(|input: &[u8]| {
    follow_ups(input);
    options(input);
    let id = JobId::from_redis(Bytes::copy_from_slice(input));
    assert_eq!(id.as_bytes(), input);
    let Ok(text) = std::str::from_utf8(input) else { return };
    match JobId::new(text) {
        Ok(id) => assert_eq!(id.to_string(), text),
        Err(why) => reason(&why.to_string(), input),
    }
    match TopicName::new(text) {
        Ok(topic) => assert_eq!(topic.as_str(), text),
        Err(why) => reason(&why.to_string(), input),
    }
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(Token::expiring_at_us(token.expires_at_us()), token);
    }
    if let Ok(id) = text.parse::<EventId>() {
        assert_eq!(id.to_string().parse::<EventId>().ok(), Some(id));
    }
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse::<Cursor>().ok(), Some(cursor));
    }
    match parse_duration(text) {
        Ok(span) => assert_eq!(parse_duration(&format_duration(span)), Ok(span), "{span:?}"),
        Err(why) => reason(&why.to_string(), input),
    }
    match Rate::parse(text) {
        Ok(rate) => assert!(rate.interval_us() > 0.0 && rate.natural_burst() > 0, "{rate:?}"),
        Err(why) => reason(&why.to_string(), input),
    }
});

fn follow_ups(input: &[u8]) {
    match FollowUp::decode(&Bytes::copy_from_slice(input)) {
        Ok(numbered) => {
            // Each takes at least the line before its payload.
            assert!(numbered.len() <= input.len());
            let all: Vec<FollowUp> = numbered.into_iter().map(|(_, follow_up)| follow_up).collect();
            let stored = Bytes::from(FollowUp::encode(&all));
            let again = FollowUp::decode(&stored).expect("what was stored is read");
            let again: Vec<FollowUp> = again.into_iter().map(|(_, follow_up)| follow_up).collect();
            assert_eq!(again, all);
            for follow_up in &all {
                let due = follow_up.due.at_ms(u64::MAX - 1);
                assert!(due > 0 || follow_up.due == FollowUpDue::AtMs(0));
                follow_up.to_json();
            }
        }
        Err(why) => reason(&why.to_string(), input),
    }
}

fn options(input: &[u8]) {
    match Options::from_json(input) {
        Ok(options) => {
            let stored = options.to_json();
            assert_eq!(Options::from_json(stored.as_bytes()).as_ref(), Ok(&options), "{stored}");
            if let Some(backoff) = options.backoff() {
                for attempt in [0, 1, 2, 1_000, u32::MAX] {
                    backoff.delay(attempt, 0.999);
                }
            }
        }
        Err(why) => reason(&why.to_string(), input),
    }
}

/// A refusal is not empty, and is not much longer than what it refuses.
fn reason(why: &str, input: &[u8]) {
    assert!(!why.is_empty() && why.len() <= 8 * input.len() + REASON_MAX, "{} bytes", why.len());
}
