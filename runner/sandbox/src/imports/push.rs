//! The import `push`, which adds a follow-up job.
//!
//! A follow-up job is validated completely before it is accepted, so the queue never refuses it when it
//! commits it together with the ack. The topic grants which topics it may go to.

mod head;

use std::collections::BTreeMap;

use bytes::Bytes;
use duebox_job::{FollowUp, JobId, Options, TopicName};
use wasmtime::{Caller, Linker};

use self::head::Head;
use crate::imports::abi::{DENIED, INVALID, NAMESPACE, TOO_LARGE};
use crate::imports::blocks;
use crate::imports::call::{View, job_view};
use crate::imports::job::HasJob;
use crate::imports::spans::{CallTarget, HasSpans};
use crate::imports::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

/// The import, and whether it takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 1] = [(PUSH, true)];

const PUSH: &str = "push";

/// How many follow-up jobs one job may add.
const FOLLOW_UPS_MAX: usize = 100;
/// Bytes of all follow-up jobs of one job together, heads and bodies.
const FOLLOW_UP_BYTES_MAX: usize = 4 << 20;

/// The state of a guest that can push.
pub(crate) trait HasFollowUps: HasJob + HasSpans {
    fn follow_ups_mut(&mut self) -> &mut FollowUps;
}

/// The follow-up jobs of one job. They count only with an ack.
#[derive(Debug, Default)]
pub(crate) struct FollowUps {
    jobs: Vec<FollowUp>,
    bytes: usize,
}

impl FollowUps {
    /// The number of the next follow-up job, from 1.
    fn next_number(&self) -> usize {
        self.jobs.len() + 1
    }

    /// Whether one more follow-up job of this size, head and body, is within the limits.
    fn has_room(&self, bytes: usize) -> bool {
        self.jobs.len() < FOLLOW_UPS_MAX && bytes <= FOLLOW_UP_BYTES_MAX - self.bytes
    }

    /// Adds a job for which [`has_room`](Self::has_room) is true.
    fn add(&mut self, job: FollowUp, bytes: usize) {
        self.bytes = (self.bytes + bytes).min(FOLLOW_UP_BYTES_MAX);
        self.jobs.push(job);
    }

    /// Takes the jobs.
    pub(crate) fn take(&mut self) -> Vec<FollowUp> {
        self.bytes = 0;
        std::mem::take(&mut self.jobs)
    }
}

/// Links the import.
pub(crate) fn link<T: HasFollowUps>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap(NAMESPACE, PUSH, push::<T>)?;
    Ok(())
}

/// Adds a follow-up job. Returns 0, or an error of docs/reference/abi.md.
fn push<T: HasFollowUps>(
    mut caller: Caller<'_, T>,
    hp: u32,
    hl: u32,
    bp: u32,
    bl: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, PUSH)?;
    let (head, body) = (view.range(hp, hl)?, view.range(bp, bl)?);
    let View { bytes, guest, .. } = view;
    Ok(match accept(guest, &bytes[head], &bytes[body]) {
        Ok(()) => 0,
        Err(code) => code,
    })
}

fn accept<T: HasFollowUps>(guest: &mut T, head: &[u8], body: &[u8]) -> Result<(), i32> {
    if head.len() > blocks::LEN_MAX {
        return Err(TOO_LARGE);
    }
    let bytes = head.len() + body.len();
    let head = Head::parse(head).ok_or(INVALID)?;
    let granted = guest.grants().push.as_deref().unwrap_or_default();
    if !granted.iter().any(|pattern| covers(pattern, head.topic.as_str())) {
        return Err(DENIED);
    }
    let number = guest.follow_ups_mut().next_number();
    let id = match head.id {
        Some(id) => id,
        None => default_id(&guest.job().invocation.id, number).ok_or(INVALID)?,
    };
    if !guest.follow_ups_mut().has_room(bytes) {
        return Err(TOO_LARGE);
    }
    let payload = Bytes::copy_from_slice(body);
    let Head { topic, due, options, .. } = head;
    let options = with_trace(guest, &topic, &id, options);
    guest.follow_ups_mut().add(FollowUp { topic, id, due, payload, options }, bytes);
    Ok(())
}

/// Adds the trace headers of the job to a follow-up job. A `traceparent` that the guest has set stays, and
/// headers without room for a trace stay as they are.
fn with_trace<T: HasFollowUps>(
    guest: &mut T,
    topic: &TopicName,
    id: &JobId,
    options: Options,
) -> Options {
    let target = || CallTarget::Push { topic: topic.clone(), id: id.clone() };
    let call = guest.spans_mut().begin(target);
    guest.spans_mut().end(call, || None);
    if options.headers().contains_key(TRACEPARENT) {
        return options;
    }
    let (parent, state) = match guest.spans().context(call) {
        Some((span, push)) => (Some(span.traceparent(push)), Some(span.state.clone())),
        None => {
            let of_job = |name| guest.job().invocation.headers.get(name).cloned();
            let parent = of_job(TRACEPARENT).filter(|parent| TraceContext::is_valid(parent));
            (parent, of_job(TRACESTATE))
        }
    };
    let Some(parent) = parent else { return options };
    let mut headers = BTreeMap::from([(TRACEPARENT.to_owned(), parent)]);
    let state = state.filter(|state| !state.is_empty());
    headers.extend(state.map(|state| (TRACESTATE.to_owned(), state)));
    options.clone().with_headers(headers).unwrap_or(options)
}

/// Whether an entry of the grant covers a topic: its name, or a prefix of it and a `*`.
fn covers(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => topic.starts_with(prefix),
        None => topic == pattern,
    }
}

/// `{id}.{number}`, so that another attempt of the job names the same follow-up jobs. `None` if the result
/// is not a valid id: a job that was pushed by plain Redis commands may have any id.
fn default_id(parent: &JobId, number: usize) -> Option<JobId> {
    let parent = std::str::from_utf8(parent.as_bytes()).ok()?;
    JobId::new(format!("{parent}.{number}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_default_id_is_valid_or_missing() {
        let id = |parent: &[u8]| default_id(&JobId::from_redis(parent.to_vec()), 7);
        assert_eq!(id(b"42"), Some(JobId::new("42.7").unwrap()));
        assert!(id(&[b'x'; 254]).is_some());
        assert_eq!(id(&[b'x'; 255]), None);
        assert_eq!(id(b"a b"), None);
        assert_eq!(id(b"\xff"), None);
    }
}
