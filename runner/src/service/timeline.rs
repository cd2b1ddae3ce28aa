//! The life of one job, as far as Redis has it: what the job itself keeps (its due time, its last attempt, its
//! lease, its ends), where events are on, the events of the job among the newest ones, and the attempts that the
//! asked daemon remembers, with the last lines of the logs of failed ones.
//!
//! In Redis earlier attempts than the last one leave nothing behind but their number and their events.

mod moment;

use duebox_job::{JobId, PARENT_HEADER, TopicName};
use duebox_queue::{Job, JobState, Queue, QueueError, StoredEvent};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::moment::Moment;
use crate::observe::recent_attempts::FailedAttempt;

/// At most this many of the newest events are looked at for those of one job.
const EVENTS_LOOKED_AT: usize = 10_000;
/// The header with the trace of a job.
const TRACEPARENT: &str = "traceparent";

/// The life of one job.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Timeline {
    /// The trace of its push, 32 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<String>,
    /// The job whose ack pushed it, as `topic/id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<String>,
    /// The jobs that its ack pushed, as `topic/id`; at most 20, of done jobs that are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) follow_ups: Vec<String>,
    /// The moments, the earliest first.
    pub(crate) timeline: Vec<Moment>,
}

impl Timeline {
    /// Adds what a daemon remembers of the job's attempts.
    pub(crate) fn add_remembered(&mut self, attempts: &[FailedAttempt], runner: &str) {
        let remembered = attempts.iter().filter_map(|attempt| Moment::remembered(attempt, runner));
        for end in remembered {
            let same = self.timeline.iter_mut().filter(|told| told.ends_same_run(&end));
            match same.min_by_key(|told| told.at_ms.abs_diff(end.at_ms)) {
                Some(told) => told.complete(end),
                None => self.timeline.push(end),
            }
        }
        self.timeline.sort_by_key(Moment::order);
    }

    /// The life of a job that was just looked up.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub(crate) async fn read(
        queue: &Queue,
        topic: &TopicName,
        job: &Job,
    ) -> Result<Self, QueueError> {
        let events = match queue.events_of(topic, &job.id, EVENTS_LOOKED_AT).await {
            Ok(events) => events,
            // A stream that this user may not read, or that holds something else, hides no job.
            Err(error) if error.is_refusal() => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(Self::of(job, &events))
    }

    fn of(job: &Job, events: &[StoredEvent]) -> Self {
        let mut moments: Vec<Moment> = events.iter().filter_map(Moment::of_event).collect();
        if !moments.iter().any(|moment| moment.event == "pushed")
            && let Some(at_ms) = time_of_id(&job.id)
        {
            moments.push(Moment::new(at_ms, "pushed"));
        }
        add_stage(job, &mut moments);
        for (at_ms, event, info) in recorded_ends(job) {
            add_attempt(at_ms, event, info, &mut moments);
        }
        moments.sort_by_key(Moment::order);
        let done = job.done.as_ref().map(|done| &done.info["follow_ups"]);
        let follow_ups = done.and_then(Value::as_array).into_iter().flatten();
        Self {
            trace_id: trace_id(job),
            parent: parent(job),
            follow_ups: follow_ups.filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
            timeline: moments,
        }
    }
}

/// Adds what the state of a job tells.
fn add_stage(job: &Job, moments: &mut Vec<Moment>) {
    let mut add = |at_ms: Option<u64>, event: &str| {
        moments.extend(at_ms.map(|at_ms| Moment::new(at_ms, event)));
    };
    add(job.due_at_ms, if job.state == JobState::Retry { "next attempt" } else { "due" });
    add(job.successor_due_at_ms, "successor due");
    add(job.held_until_ms, "id free");
    if let Some(lease) = &job.lease {
        let runner = lease.holder.clone();
        let attempt = Some(u64::from(job.failures) + 1);
        moments.push(Moment { runner, attempt, ..Moment::new(lease.expires_at_ms, "lease ends") });
    }
}

/// The ends that are recorded with the job: time, event and record. The time of a failed attempt is unknown
/// if no module ran it.
fn recorded_ends(job: &Job) -> Vec<(Option<u64>, &'static str, &Value)> {
    let mut ends = Vec::new();
    if job.state.is_live() {
        ends.extend(job.last_error.as_ref().map(|info| (None, "retried", info)));
    }
    ends.extend(job.dead.as_ref().map(|dead| (Some(dead.died_at_ms), "dead", &dead.info)));
    ends.extend(job.done.as_ref().map(|done| (Some(done.done_at_ms), "acked", &done.info)));
    ends
}

/// Adds the start and the end of a recorded attempt. An event of the same end takes the record's details.
///
/// The start, the end and the event are read from clocks that differ by some milliseconds. The start is shown no
/// later than the end.
fn add_attempt(at_ms: Option<u64>, event: &str, info: &Value, moments: &mut Vec<Moment>) {
    let started_at_ms = info["started_at_ms"].as_u64();
    let ran_ms = info["wall_ms"].as_f64().unwrap_or(0.0).max(0.0) as u64;
    let ended_at_ms = at_ms.or_else(|| started_at_ms.map(|at_ms| at_ms.saturating_add(ran_ms)));
    let end = Moment::recorded(ended_at_ms.unwrap_or(0), event, info);
    let (attempt, runner) = (end.attempt, end.runner.clone());
    let shown_end_ms = match moments.iter_mut().rev().find(|moment| moment.ends_same_attempt(&end))
    {
        Some(told) => {
            *told = Moment { at_ms: told.at_ms, ..end };
            Some(told.at_ms)
        }
        None => {
            moments.extend(ended_at_ms.map(|_| end));
            ended_at_ms
        }
    };
    if let Some(at_ms) = started_at_ms {
        let at_ms = shown_end_ms.map_or(at_ms, |end_ms| at_ms.min(end_ms));
        moments.push(Moment { attempt, runner, ..Moment::new(at_ms, "started") });
    }
}

/// The time in an id that was generated at the push: a UUID of version 7.
fn time_of_id(id: &JobId) -> Option<u64> {
    let text = std::str::from_utf8(id.as_bytes()).ok()?;
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let is_uuid = text.len() == 36 && digits.len() == 32 && digits.as_bytes()[12] == b'7';
    let time = digits.get(..12).filter(|_| is_uuid)?;
    u64::from_str_radix(time, 16).ok()
}

/// The job that pushed a follow-up: named in a header, and where that is not kept in the record of its end.
fn parent(job: &Job) -> Option<String> {
    let header = job.options.as_ref().ok().and_then(|own| own.headers().get(PARENT_HEADER));
    let done = || job.done.as_ref()?.info["parent"].as_str();
    header.map(String::as_str).or_else(done).map(str::to_owned)
}

/// The trace id of a valid `traceparent`.
fn trace_id(job: &Job) -> Option<String> {
    let header = job.options.as_ref().ok()?.headers().get(TRACEPARENT)?;
    let id = header.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use duebox_job::Options;
    use duebox_queue::DeadEntry;
    use serde_json::json;

    use super::*;
    use crate::observe::recent_attempts::RecentAttempt;

    fn job(id: &str, state: JobState) -> Job {
        Job {
            id: JobId::from_redis(id.to_owned()),
            state,
            due_at_ms: None,
            payload: None,
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
            lease: None,
            successor_due_at_ms: None,
            last_error: None,
            dead: None,
            done: None,
            held_until_ms: None,
            now_ms: 0,
        }
    }

    fn event(ms: u64, word: &str, attempt: &str) -> StoredEvent {
        let fields = [("event", word), ("at", &ms.to_string()), ("attempt", attempt)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        StoredEvent { id: format!("{ms}-0").parse().unwrap(), fields: fields.into() }
    }

    fn words(timeline: &Timeline) -> Vec<(u64, &str, Option<u64>)> {
        let moments = timeline.timeline.iter();
        moments.map(|moment| (moment.at_ms, moment.event.as_str(), moment.attempt)).collect()
    }

    #[test]
    fn a_dead_job_has_its_last_attempt_and_the_events_of_the_earlier_ones() {
        let info = json!({"class": "trap", "reason": "unreachable", "attempt": 2, "runner": "5-a",
            "started_at_ms": 300, "wall_ms": 20.5});
        let died =
            Job { dead: Some(DeadEntry { died_at_ms: 321, info }), ..job("42", JobState::Dead) };
        let own = Timeline::of(&died, &[]);
        assert_eq!(words(&own), [(300, "started", Some(2)), (321, "dead", Some(2))]);
        let events =
            [event(100, "pushed", ""), event(200, "retried", "1"), event(325, "dead", "2")];
        let told = Timeline::of(&died, &events);
        assert_eq!(
            words(&told),
            [
                (100, "pushed", None),
                (200, "retried", Some(1)),
                (300, "started", Some(2)),
                (325, "dead", Some(2))
            ]
        );
        let end = &told.timeline[3];
        assert_eq!(
            (end.reason.as_deref(), end.runner.as_deref()),
            (Some("unreachable"), Some("5-a"))
        );
    }

    #[test]
    fn remembered_attempts_complete_the_timeline_with_their_logs() {
        let info = json!({"class": "nack", "reason": "shut", "attempt": 3, "wall_ms": 5.0, "log": ["error: third"]});
        let died =
            Job { dead: Some(DeadEntry { died_at_ms: 9_000, info }), ..job("42", JobState::Dead) };
        let mut told = Timeline::of(&died, &[event(3_000, "retried", "1")]);
        let attempt = |attempt, at_ms, settled, line: &str| FailedAttempt {
            attempt: RecentAttempt {
                id: "42".to_owned(),
                at_ms,
                attempt,
                verdict: "nack",
                settled,
                class: "nack",
                reason: "shut".to_owned(),
                digest: None,
                wall_ms: 5.0,
                late_ms: 0.0,
            },
            log: vec![line.to_owned()],
            is_cut: attempt == 2,
        };
        let remembered = [
            attempt(1, 3_010, "retry", "first"),
            attempt(2, 6_000, "retry", "second"),
            attempt(3, 9_010, "dead", "third"),
        ];
        told.add_remembered(&remembered, "5-a");
        assert_eq!(
            words(&told),
            [(3_000, "retried", Some(1)), (6_000, "retried", Some(2)), (9_000, "dead", Some(3))]
        );
        let logs: Vec<_> =
            told.timeline.iter().map(|end| (end.log.concat(), end.log_cut)).collect();
        assert_eq!(
            logs,
            [
                ("first".to_owned(), false),
                ("second".to_owned(), true),
                ("error: third".to_owned(), false)
            ]
        );
        assert_eq!(told.timeline[0].runner.as_deref(), Some("5-a"));
        // The same number after a requeue is another attempt.
        told.add_remembered(&[attempt(1, 90_000, "retry", "again")], "5-a");
        assert_eq!(told.timeline.len(), 4);
    }

    #[test]
    fn an_attempt_starts_before_its_end_in_one_millisecond_and_with_clocks_that_differ() {
        let died = |started_at_ms: u64| {
            let info = json!({"class": "nack", "attempt": 2, "started_at_ms": started_at_ms});
            Job { dead: Some(DeadEntry { died_at_ms: 300, info }), ..job("42", JobState::Dead) }
        };
        let events = [event(300, "retried", "1"), event(300, "dead", "2")];
        let expected =
            [(300, "retried", Some(1)), (300, "started", Some(2)), (300, "dead", Some(2))];
        for started_at_ms in [300, 301] {
            assert_eq!(words(&Timeline::of(&died(started_at_ms), &events)), expected);
        }
        assert_eq!(words(&Timeline::of(&died(301), &[])), expected[1..]);
    }

    #[test]
    fn a_generated_id_and_the_headers_tell_the_push_and_the_trace() {
        let id = JobId::generate();
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let options = Options::default().with_header(TRACEPARENT, header).unwrap();
        let waits = Job {
            options: Ok(options),
            due_at_ms: Some(u64::MAX),
            ..job(&id.to_string(), JobState::Pending)
        };
        let timeline = Timeline::of(&waits, &[]);
        assert_eq!(timeline.trace_id.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!((timeline.timeline[0].event.as_str(), timeline.timeline.len()), ("pushed", 2));
        assert!(timeline.timeline[0].at_ms > 1_700_000_000_000, "{timeline:?}");
        for id in ["42", "0190b0a0-7b1c-4000-8000-000000000000", "päckchen"] {
            assert_eq!(time_of_id(&JobId::from_redis(id.to_owned())), None, "{id}");
        }
    }
}
