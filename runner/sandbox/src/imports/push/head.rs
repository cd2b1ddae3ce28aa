//! The head of a follow-up job: a block with its topic, id, due time and options. It is parsed as a whole,
//! or refused.

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_job::{
    ATTEMPTS_MAX, DELAY_MAX_MS, DUE_MS_RANGE, FollowUpDue, JobId, Options, Priority, TopicName,
};

use crate::imports::blocks;

/// The head of a follow-up job.
pub(super) struct Head {
    pub(super) topic: TopicName,
    pub(super) id: Option<JobId>,
    pub(super) due: FollowUpDue,
    pub(super) options: Options,
}

impl Head {
    /// Parses a head. `None` if it is not a block, or a field is invalid by docs/reference/abi.md.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let (mut topic, mut id, mut due) = (None, None, None);
        let (mut options, mut headers) = (Options::default(), BTreeMap::new());
        let mut seen = Vec::new();
        for (name, value) in blocks::read(head)? {
            if let Some(header) = name.strip_prefix("h.") {
                if headers.insert(header.to_owned(), value.to_owned()).is_some() {
                    return None;
                }
                continue;
            }
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
            match name {
                "topic" => topic = Some(TopicName::new(value).ok()?),
                "id" => id = Some(JobId::new(value).ok()?),
                "delay-ms" | "due-at-ms" if due.is_some() => return None,
                "delay-ms" => due = Some(FollowUpDue::AfterMs(number(value, DELAY_MAX_MS)?)),
                "due-at-ms" => due = Some(FollowUpDue::AtMs(due_at_ms(value)?)),
                _ => options = with_option(options, name, value)?,
            }
        }
        if !headers.is_empty() {
            options = options.with_headers(headers).ok()?;
        }
        Some(Self { topic: topic?, id, due: due.unwrap_or(FollowUpDue::AfterMs(0)), options })
    }
}

/// Adds one option. `None` if the name is unknown or the value is invalid.
fn with_option(options: Options, name: &str, value: &str) -> Option<Options> {
    let duration = || number(value, DELAY_MAX_MS).map(Duration::from_millis);
    Some(match name {
        "ttr-ms" => options.with_ttr(duration().filter(|ttr| !ttr.is_zero())?),
        "ttl-ms" => options.with_ttl(duration()?),
        "max-attempts" => {
            let attempts = number(value, ATTEMPTS_MAX.into()).filter(|attempts| *attempts > 0)?;
            options.with_max_attempts(u32::try_from(attempts).ok()?)
        }
        "priority" => options
            .with_priority(Priority::ALL.into_iter().find(|priority| priority.name() == value)?),
        "key" => options.with_key(value).ok()?,
        _ => return None,
    })
}

/// A whole number from 0 to `max`, written with decimal digits only.
fn number(value: &str, max: u64) -> Option<u64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten().filter(|number| *number <= max)
}

fn due_at_ms(value: &str) -> Option<u64> {
    number(value, u64::MAX).filter(|at| DUE_MS_RANGE.contains(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_every_field_of_a_job() {
        let head = b"topic: sms.eu\nid: a/1\ndelay-ms: 1500\nttr-ms: 5000\nmax-attempts: 3\n\
            ttl-ms: 60000\npriority: high\nkey: user 42\nh.traceparent: 00-ab\nh.lang: de\n";
        let read = Head::parse(head).unwrap();
        assert_eq!(read.topic.as_str(), "sms.eu");
        assert_eq!(read.id, Some(JobId::new("a/1").unwrap()));
        assert_eq!(read.due, FollowUpDue::AfterMs(1_500));
        let options = Options::default()
            .with_ttr(Duration::from_secs(5))
            .with_max_attempts(3)
            .with_ttl(Duration::from_secs(60))
            .with_priority(Priority::High)
            .with_key("user 42")
            .and_then(|options| options.with_header("traceparent", "00-ab"))
            .and_then(|options| options.with_header("lang", "de"))
            .unwrap();
        assert_eq!(read.options, options);
        let plain = Head::parse(b"topic: a\n").unwrap();
        assert_eq!((plain.id, plain.due), (None, FollowUpDue::AfterMs(0)));
        assert!(plain.options.is_empty());
    }

    #[test]
    fn a_head_has_the_same_limits_as_the_queue() {
        for (line, fits) in [
            ("delay-ms: 0", true),
            ("delay-ms: 315360000000", true),
            ("delay-ms: 315360000001", false),
            ("due-at-ms: 100000000000", true),
            ("due-at-ms: 99999999999", false),
            ("due-at-ms: 100000000000001", false),
            ("ttr-ms: 1", true),
            ("ttr-ms: 0", false),
            ("max-attempts: 999999", true),
            ("max-attempts: 1000000", false),
            ("max-attempts: 0", false),
            ("ttl-ms: 0", true),
            ("ttl-ms: 18446744073709551616", false),
            ("priority: normal", true),
            ("priority: High", false),
            ("key: ", false),
            ("id: ", false),
            ("id: a b", false),
            ("ttr-ms: +5", false),
            ("ttr-ms:  5", false),
            ("ttr-ms: 5.0", false),
            ("ttr-ms: ", false),
            ("topic: b", false),
            ("ttr: 5", false),
            ("max-snoozes: 5", false),
            ("h.: 1", false),
            ("h.a: 1\nh.a: 2", false),
            ("ttr-ms: 5\nttr-ms: 5", false),
            ("delay-ms: 5\ndue-at-ms: 1763740800000", false),
        ] {
            let head = format!("topic: a\n{line}\n");
            assert_eq!(Head::parse(head.as_bytes()).is_some(), fits, "{line}");
        }
        for head in ["", "id: 1\n", "topic: \n", "topic: a b\n", "topic: a"] {
            assert!(Head::parse(head.as_bytes()).is_none(), "{head:?}");
        }
    }
}
