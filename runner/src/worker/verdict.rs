//! From the outcome of an attempt to the verdict on the job: the topic's policy for the failure class, its
//! backoff, and what a done or dead job keeps.

use std::time::Duration;

use duebox_job::{Failure, FailureClass, Options, Outcome, PARENT_HEADER, Policy, SNOOZES_MAX};
use duebox_queue::{Finish, LastAttempt, Verdict};
use duebox_sandbox::Digest;

use crate::executor::AttemptOutput;
use crate::manifest::Topic;

/// The delay before the next try after a host fault.
const FAULT_DELAY: Duration = Duration::from_millis(100);

/// At most this many follow-ups are named in what a done job keeps.
const FOLLOW_UPS_NAMED: usize = 20;

/// An attempt that is over.
pub struct EndedAttempt<'a> {
    /// The settings of the job's topic.
    pub topic: &'a Topic,
    /// The job's own options; `None` if they cannot be read.
    pub options: Option<&'a Options>,
    /// The attempt number, from 1.
    pub number: u32,
    /// How often the job was snoozed before.
    pub snoozes: u32,
    /// The module that ran it, if one did.
    pub digest: Option<Digest>,
    /// How long it ran; zero if unknown.
    pub wall: Duration,
    /// The runner that ran it; empty if none did.
    pub runner: &'a str,
    /// When it started, unix ms by the clock of Redis.
    pub started_at_ms: Option<u64>,
}

impl EndedAttempt<'_> {
    /// The number of attempts that the job has.
    pub fn max_attempts(&self) -> u32 {
        self.options.and_then(Options::max_attempts).unwrap_or(self.topic.retries.max_attempts)
    }

    /// The verdict on the job for the outcome of this attempt.
    pub fn verdict(&self, outcome: &Outcome, output: AttemptOutput) -> Verdict {
        match outcome {
            Outcome::Acked => self.verdict_of_ack(output),
            Outcome::HostFault(_) => Verdict::Release { delay: FAULT_DELAY },
            Outcome::Snoozed { delay, .. } => self.verdict_of_snooze(*delay),
            Outcome::Failed(failure) => self.verdict_of_failure(failure, &output),
        }
    }

    fn verdict_of_ack(&self, output: AttemptOutput) -> Verdict {
        let Topic { unique_for, retention, .. } = self.topic;
        let keeps = retention.done.is_some();
        if output.follow_ups.is_empty() && unique_for.is_zero() && !keeps {
            return Verdict::Ack;
        }
        Verdict::Finish(Finish {
            unique_for: *unique_for,
            info: keeps.then(|| self.info_of_done(&output)),
            result: output.result.filter(|_| keeps),
            follow_ups: output.follow_ups,
        })
    }

    fn verdict_of_failure(&self, failure: &Failure, output: &AttemptOutput) -> Verdict {
        match self.topic.policy(failure.class) {
            Policy::Discard => Verdict::Discard,
            Policy::Dead => Verdict::Drop { info: self.evidence(failure, output, true) },
            Policy::Retry => {
                let max_attempts = self.max_attempts();
                let is_last = self.topic.is_fatal(failure.class, self.number, max_attempts);
                Verdict::Nack {
                    delay: failure.retry_after.unwrap_or_else(|| self.backoff()),
                    max_attempts,
                    info: self.evidence(failure, output, is_last),
                }
            }
        }
    }

    /// The executor has judged that the job may be snoozed, so the script is told the same, whatever a reload
    /// has changed since.
    fn verdict_of_snooze(&self, delay: Duration) -> Verdict {
        Verdict::Snooze {
            delay,
            max_snoozes: self.snoozes.saturating_add(1).min(SNOOZES_MAX),
            nack_delay: self.backoff(),
            max_attempts: self.max_attempts(),
            info: LastAttempt::without_attempt(FailureClass::Nack).to_json(),
        }
    }

    fn backoff(&self) -> Duration {
        let own = self.options.and_then(Options::backoff);
        own.as_ref().unwrap_or(&self.topic.retries.backoff).delay(self.number, fastrand::f64())
    }

    fn digest_text(&self) -> Option<String> {
        self.digest.map(|digest| digest.to_string())
    }

    fn info<'a>(&'a self, digest: Option<&'a str>) -> LastAttempt<'a> {
        LastAttempt {
            attempt: Some(self.number),
            digest,
            runner: self.runner,
            started_at_ms: self.started_at_ms,
            wall_ms: (!self.wall.is_zero()).then_some(self.wall.as_micros() as f64 / 1_000.0),
            ..LastAttempt::default()
        }
    }

    fn info_of_done(&self, output: &AttemptOutput) -> String {
        let digest = self.digest_text();
        let named = output.follow_ups.iter().take(FOLLOW_UPS_NAMED);
        let follow_ups: Vec<String> =
            named.map(|follow_up| format!("{}/{}", follow_up.topic, follow_up.id)).collect();
        let parent = self.options.and_then(|options| options.headers().get(PARENT_HEADER));
        let parent = parent.map(String::as_str);
        LastAttempt { parent, follow_ups: &follow_ups, ..self.info(digest.as_deref()) }.to_json()
    }

    /// What is known of a failure. Only a failure that may be the last one keeps its trace and log.
    fn evidence(&self, failure: &Failure, output: &AttemptOutput, is_last: bool) -> String {
        let digest = self.digest_text();
        let info = LastAttempt {
            class: Some(failure.class),
            reason: &failure.reason,
            trace: output.trace.as_deref().filter(|_| is_last),
            log: if is_last { &output.log_tail } else { &[] },
            ..self.info(digest.as_deref())
        };
        info.to_json()
    }
}

/// What a job keeps that a script moves to dead; `None` if the topic discards such jobs.
pub fn buried_info(topic: &Topic, class: FailureClass) -> Option<String> {
    match topic.policy(class) {
        Policy::Discard => None,
        _ => Some(LastAttempt::without_attempt(class).to_json()),
    }
}
