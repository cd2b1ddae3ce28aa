//! The import `push`: a follow-up job. It is checked whole before it is taken, so that whoever
//! commits it with the ack meets nothing that could be refused there. Who it may go to is the topic's
//! to grant.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{
    ATTEMPTS_MAX, DELAY_MAX_MS, DUE_MS_RANGE, FollowUp, FollowUpDue, JobId, Options, Priority,
    TopicName,
};
use wasmtime::Caller;

use crate::imports::abi::{DENIED, INVALID, TOO_LARGE};
use crate::imports::blocks as block;
use crate::imports::call::{View, job_view};
use crate::imports::http::{TRACEPARENT, TRACESTATE, Trace};
use crate::imports::spans::Target;
use crate::instance::guest::Guest;

/// Its name.
pub(crate) const NAME: &str = "push";

/// Takes a follow-up; 0, or an error of docs/reference/abi.md.
pub(crate) fn push(
    mut caller: Caller<'_, Guest>,
    hp: u32,
    hl: u32,
    bp: u32,
    bl: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, NAME)?;
    let (head, body) = (view.range(hp, hl)?, view.range(bp, bl)?);
    let View { bytes, guest, .. } = view;
    Ok(match take(guest, &bytes[head], &bytes[body]) {
        Ok(()) => 0,
        Err(code) => code,
    })
}

fn take(guest: &mut Guest, head: &[u8], body: &[u8]) -> Result<(), i32> {
    if head.len() > block::LEN_MAX {
        return Err(TOO_LARGE);
    }
    let bytes = head.len() + body.len();
    let head = Head::read(head).ok_or(INVALID)?;
    let granted = guest.grants.push.as_deref().unwrap_or_default();
    if !granted.iter().any(|pattern| covers(pattern, head.topic.as_str())) {
        return Err(DENIED);
    }
    let follow_ups = &mut guest.said.follow_ups;
    let id = match head.id {
        Some(id) => id,
        None => default_id(&guest.invocation.id, follow_ups.next_number()).ok_or(INVALID)?,
    };
    if !follow_ups.has_room(bytes) {
        return Err(TOO_LARGE);
    }
    let payload = Bytes::copy_from_slice(body);
    let Head { topic, due, options, .. } = head;
    let options = in_trace(guest, &topic, &id, options);
    let follow_ups = &mut guest.said.follow_ups;
    follow_ups.add(FollowUp { topic, id, due, payload, options }, bytes);
    Ok(())
}

/// The options of a follow-up, with its place in the trace of the job that asks for it; unless the guest gave
/// it one, or its headers have no room.
fn in_trace(guest: &mut Guest, topic: &TopicName, id: &JobId, options: Options) -> Options {
    let call = match guest.traced {
        Some(_) => guest.begins(Target::Push { topic: topic.clone(), id: id.clone() }),
        None => None,
    };
    guest.ended(call, || None);
    if options.headers().contains_key(TRACEPARENT) {
        return options;
    }
    let own = guest.traced.as_ref().zip(call);
    let own = own.and_then(|(traced, call)| Some((&traced.span, traced.calls.get(call)?.id)));
    let of_job = |name| guest.invocation.headers.get(name).cloned();
    let (parent, state) = match own {
        Some((span, push)) => (Some(span.parent_of(push)), Some(span.state.clone())),
        None => (of_job(TRACEPARENT).filter(|parent| Trace::is_one(parent)), of_job(TRACESTATE)),
    };
    let Some(parent) = parent else { return options };
    let mut headers = BTreeMap::from([(TRACEPARENT.to_owned(), parent)]);
    headers.extend(state.filter(|state| !state.is_empty()).map(|s| (TRACESTATE.to_owned(), s)));
    options.clone().with_headers(headers).unwrap_or(options)
}

/// Whether an entry of the grant lets a topic pass: its name, or a prefix of it and a `*`.
fn covers(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => topic.starts_with(prefix),
        None => topic == pattern,
    }
}

/// `{id}.{number}`, so that a repeat of the job names the same follow-ups. An id that a plain producer
/// wrote may be anything; one that cannot be pushed has no default.
fn default_id(parent: &JobId, number: usize) -> Option<JobId> {
    let parent = std::str::from_utf8(parent.as_bytes()).ok()?;
    JobId::new(format!("{parent}.{number}")).ok()
}

/// What a head asks for.
struct Head {
    topic: TopicName,
    id: Option<JobId>,
    due: FollowUpDue,
    options: Options,
}

impl Head {
    /// Reads a head; `None` if it is no block, or anything in it is not as docs/reference/abi.md says.
    fn read(head: &[u8]) -> Option<Self> {
        let (mut topic, mut id, mut due) = (None, None, None);
        let (mut options, mut headers) = (Options::default(), BTreeMap::new());
        let mut seen = Vec::new();
        for (name, value) in block::read(head)? {
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
                "due-at-ms" => due = Some(FollowUpDue::AtMs(instant(value)?)),
                _ => options = option(options, name, value)?,
            }
        }
        if !headers.is_empty() {
            options = options.with_headers(headers).ok()?;
        }
        Some(Self { topic: topic?, id, due: due.unwrap_or(FollowUpDue::AfterMs(0)), options })
    }
}

/// Adds the option of this name; `None` if there is none, or the value is not its.
fn option(options: Options, name: &str, value: &str) -> Option<Options> {
    let span = || number(value, DELAY_MAX_MS).map(Duration::from_millis);
    Some(match name {
        "ttr-ms" => options.with_ttr(span().filter(|ttr| !ttr.is_zero())?),
        "ttl-ms" => options.with_ttl(span()?),
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

/// A whole number from 0 to `max`, in decimal digits and nothing else.
fn number(value: &str, max: u64) -> Option<u64> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().ok()).flatten().filter(|number| *number <= max)
}

fn instant(value: &str) -> Option<u64> {
    number(value, u64::MAX).filter(|at| DUE_MS_RANGE.contains(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_all_that_a_job_can_have() {
        let head = b"topic: sms.eu\nid: a/1\ndelay-ms: 1500\nttr-ms: 5000\nmax-attempts: 3\n\
            ttl-ms: 60000\npriority: high\nkey: user 42\nh.traceparent: 00-ab\nh.lang: de\n";
        let read = Head::read(head).unwrap();
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
        let plain = Head::read(b"topic: a\n").unwrap();
        assert_eq!((plain.id, plain.due), (None, FollowUpDue::AfterMs(0)));
        assert!(plain.options.is_empty());
    }

    #[test]
    fn the_bounds_of_a_head_are_those_of_the_queue() {
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
            assert_eq!(Head::read(head.as_bytes()).is_some(), fits, "{line}");
        }
        for head in ["", "id: 1\n", "topic: \n", "topic: a b\n", "topic: a"] {
            assert!(Head::read(head.as_bytes()).is_none(), "{head:?}");
        }
    }

    #[test]
    fn a_grant_is_a_name_or_a_prefix() {
        for (pattern, topic, covered) in [
            ("sms.eu", "sms.eu", true),
            ("sms.eu", "sms.eu.de", false),
            ("sms.*", "sms.eu", true),
            ("sms.*", "sms.", true),
            ("sms.*", "sms", false),
            ("*", "anything", true),
            ("", "anything", false),
        ] {
            assert_eq!(covers(pattern, topic), covered, "{pattern} {topic}");
        }
    }

    #[test]
    fn a_default_id_is_one_that_can_be_pushed() {
        let id = |parent: &[u8]| default_id(&JobId::from_redis(parent.to_vec()), 7);
        assert_eq!(id(b"42"), Some(JobId::new("42.7").unwrap()));
        assert!(id(&[b'x'; 254]).is_some());
        assert_eq!(id(&[b'x'; 255]), None);
        assert_eq!(id(b"a b"), None);
        assert_eq!(id(b"\xff"), None);
    }
}
