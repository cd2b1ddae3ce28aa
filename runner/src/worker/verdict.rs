//! From what came of an attempt to what is to become of the job: the topic's policy for the failure's
//! class, its backoff, and what a job leaves behind when it is done or dead.

use std::time::Duration;

use duebox_job::{Failure, FailureClass, Options, Outcome, Policy};
use duebox_queue::{DeadInfo, Finish, Verdict};
use duebox_sandbox::Digest;

use crate::executor::Remains;
use crate::manifest::Topic;

/// The wait before a job runs again that a fault of the host kept from running.
const FAULT_DELAY: Duration = Duration::from_millis(100);

/// An attempt that is over, and whose it was.
pub struct Attempt<'a> {
    /// The job's topic.
    pub topic: &'a Topic,
    /// What the job sets over it; none where that cannot be read.
    pub options: Option<&'a Options>,
    /// Which attempt it was, from 1.
    pub number: u32,
    /// The module that ran it; none if none did.
    pub digest: Option<Digest>,
    /// How long it ran; zero if that is not known.
    pub wall: Duration,
}

impl Attempt<'_> {
    /// Attempts the job has in all.
    pub fn max_attempts(&self) -> u32 {
        self.options.and_then(Options::max_attempts).unwrap_or(self.topic.max_attempts)
    }

    /// The verdict on the job for what came of this attempt.
    pub fn verdict(&self, outcome: &Outcome, remains: Remains) -> Verdict {
        match outcome {
            Outcome::Acked => self.done(remains),
            Outcome::HostFault(_) => Verdict::Release { delay: FAULT_DELAY },
            Outcome::Snoozed { delay, reason } => self.snoozed(*delay, reason, &remains),
            Outcome::Failed(failure) => self.failed(failure, &remains),
        }
    }

    fn done(&self, remains: Remains) -> Verdict {
        let Topic { unique_for, done_retention, .. } = self.topic;
        let keeps = !done_retention.is_zero();
        if remains.follow_ups.is_empty() && unique_for.is_zero() && !keeps {
            return Verdict::Ack;
        }
        Verdict::Finish(Finish {
            unique_for: *unique_for,
            info: keeps.then(|| self.info(self.digest_text().as_deref()).to_json()),
            result: remains.result.filter(|_| keeps),
            follow_ups: remains.follow_ups,
        })
    }

    fn failed(&self, failure: &Failure, remains: &Remains) -> Verdict {
        match self.policy(failure.class) {
            Policy::Discard => Verdict::Ack,
            Policy::Dead => Verdict::Drop { info: self.evidence(failure, remains, true) },
            Policy::Retry => {
                let max_attempts = self.max_attempts();
                let is_last = self.number >= max_attempts;
                Verdict::Nack {
                    delay: failure.retry_after.unwrap_or_else(|| self.backoff()),
                    max_attempts,
                    info: self.evidence(failure, remains, is_last),
                }
            }
        }
    }

    fn snoozed(&self, delay: Duration, reason: &str, remains: &Remains) -> Verdict {
        let own = self.options.and_then(Options::max_snoozes);
        let max_snoozes = own.unwrap_or(self.topic.max_snoozes);
        let reason = match reason {
            "" => format!("it was put off as often as max_snoozes allows ({max_snoozes})"),
            said => {
                format!("it was put off as often as max_snoozes allows ({max_snoozes}): {said}")
            }
        };
        let spent = Failure { class: FailureClass::Nack, reason, retry_after: None };
        let is_retried = self.policy(FailureClass::Nack) == Policy::Retry;
        Verdict::Snooze {
            delay,
            max_snoozes,
            nack_delay: self.backoff(),
            max_attempts: if is_retried { self.max_attempts() } else { 1 },
            info: self.evidence(&spent, remains, true),
        }
    }

    fn policy(&self, class: FailureClass) -> Policy {
        self.topic.on.get(&class).copied().unwrap_or_else(|| class.default_policy())
    }

    fn backoff(&self) -> Duration {
        let own = self.options.and_then(Options::backoff);
        own.as_ref().unwrap_or(&self.topic.backoff).delay(self.number, fastrand::f64())
    }

    fn digest_text(&self) -> Option<String> {
        self.digest.map(|digest| digest.to_string())
    }

    fn info<'a>(&self, digest: Option<&'a str>) -> DeadInfo<'a> {
        DeadInfo {
            attempt: Some(self.number),
            digest,
            wall_ms: (!self.wall.is_zero()).then_some(self.wall.as_micros() as f64 / 1_000.0),
            ..DeadInfo::default()
        }
    }

    /// What is known of a failure; trace and log only of one that may be the last.
    fn evidence(&self, failure: &Failure, remains: &Remains, is_last: bool) -> String {
        let digest = self.digest_text();
        let info = DeadInfo {
            class: Some(failure.class),
            reason: &failure.reason,
            trace: remains.trace.as_deref().filter(|_| is_last),
            log: if is_last { &remains.log_tail } else { &[] },
            ..self.info(digest.as_deref())
        };
        info.to_json()
    }
}

/// What a job keeps that a script buries; `None` if the topic discards such jobs.
pub fn buried_info(topic: &Topic, class: FailureClass) -> Option<String> {
    match topic.on.get(&class) {
        Some(Policy::Discard) => None,
        _ => Some(DeadInfo::without_attempt(class).to_json()),
    }
}
