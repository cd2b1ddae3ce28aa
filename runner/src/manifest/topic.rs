//! A topic with all its settings.
//!
//! Each key of a topic takes precedence over the same key of `[defaults]`, also inside `on` and `sandbox`. A
//! key that neither table sets has the built-in default. A [`Topic`] therefore has no missing value.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox_job::{Backoff, FailureClass, Policy, Rate};
use duebox_queue::IfExists;
use duebox_sandbox::{Digest, Grants, Limits};

use super::case::Case;
use super::failures::BreakerRule;
use super::rollout::{Canary, Rollback};
use super::secret::SecretSource;
use super::topic_table::TopicTable;

const DAY: Duration = Duration::from_secs(86_400);
const MAX_ATTEMPTS: u32 = 8;

/// How the jobs of one topic are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The module file; `None` for a topic that is served to pull consumers.
    pub handler: Option<PathBuf>,
    /// The expected SHA-256 of the file; `None` accepts any.
    pub sha256: Option<Digest>,
    /// Jobs that this process runs at once; 1 to 10,000.
    pub concurrency: u32,
    /// Jobs that all runners together run at once; 0 (no limit) to 1,000,000.
    pub max_running: u32,
    /// The delay of a push without a due time; 0 to ten years.
    pub delay: Duration,
    /// Wall clock of one attempt, from its real start; 1 ms to 24 h.
    pub ttr: Duration,
    /// Attempts in all; 1 to 999,999.
    pub max_attempts: u32,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// How often a handler may snooze a job; 0 to 1,000,000.
    pub max_snoozes: u32,
    /// Runs that may end with the runner's death; 1 to 999.
    pub max_crashes: u32,
    /// The policy of each failure class; contains every class.
    pub on: BTreeMap<FailureClass, Policy>,
    /// How long after its due time a job may start first; 0 (no limit) to ten years.
    pub ttl: Duration,
    /// What a push of a live id does.
    pub if_exists: IfExists,
    /// How long after a job is done its id stays reserved; 0 to ten years.
    pub unique_for: Duration,
    /// Waiting jobs above which a push is refused; 0 (no limit) to 1,000,000,000.
    pub max_pending: u64,
    /// How long dead jobs are kept; 0 to ten years.
    pub retention: Duration,
    /// How many dead jobs are kept, and how many done ones; 0 to 100,000,000.
    pub max_dead: u64,
    /// How long done jobs are kept with their result; 0 to ten years.
    pub done_retention: Duration,
    /// How many jobs may start in a span of time, all runners together; `None` for no limit.
    pub rate: Option<Rate>,
    /// How many jobs may start at once after a pause; 1 to 1,000,000, or 0 without a rate.
    pub burst: u32,
    /// Jobs of one key that run at once, all runners together; 0 (keys are ignored) to 10,000.
    pub per_key_concurrency: u32,
    /// Whether a job that waits for its retry holds back the others of its key.
    pub order: KeyOrder,
    /// Whether waiting high, normal and low jobs share the starts, instead of high jobs always first.
    pub priorities: bool,
    /// Redis slots that the topic is split over; 1 to 64.
    pub shards: u32,
    /// When its jobs are held back because its handler fails.
    pub breaker: BreakerRule,
    /// When a new module is replaced by the previous one.
    pub rollback: Rollback,
    /// A second module that runs a share of the jobs.
    pub canary: Option<Canary>,
    /// Jobs that a module must answer as expected before it serves, at most 100.
    pub smoke: Vec<Case>,
    /// Files with further cases, which `duebox test` runs; empty for `tests/*.toml` next to the handler.
    pub tests: Vec<PathBuf>,
    /// Which attempts are recorded.
    pub record: RecordPolicy,
    /// The sandbox limits of the handler.
    pub limits: Limits,
    /// The sandbox grants of the handler. Its `config` contains the values of the secrets.
    pub grants: Grants,
    /// The source of each secret.
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Which attempts keep what they read from the host, to be replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordPolicy {
    /// None.
    #[default]
    Off,
    /// The last attempt of each dead job.
    Failures,
}

/// Whether a job that waits for its retry holds back the others of its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// It does. The jobs of a key run in the order of their pushes.
    #[default]
    Strict,
    /// It does not. The next job of the key may run first.
    Relaxed,
}

impl Topic {
    /// Merges a topic's settings with those of `[defaults]`.
    ///
    /// An array of backoffs sets the attempts to its length + 1, unless the same table sets `max_attempts`.
    pub(super) fn new(handler: Option<PathBuf>, own: TopicTable, defaults: &TopicTable) -> Self {
        let rate = own.rate.or(defaults.rate).flatten();
        let burst = own.burst.or(defaults.burst).unwrap_or(0);
        let mut limits = own.sandbox.limits_over(&defaults.sandbox);
        limits.instances = own.instances_over(defaults);
        Self {
            handler,
            sha256: None,
            concurrency: own.concurrency.or(defaults.concurrency).unwrap_or(64),
            max_running: own.max_running.or(defaults.max_running).unwrap_or(0),
            delay: own.delay.or(defaults.delay).unwrap_or_default(),
            ttr: own.ttr.or(defaults.ttr).unwrap_or(Duration::from_secs(30)),
            max_attempts: own.attempts().or_else(|| defaults.attempts()).unwrap_or(MAX_ATTEMPTS),
            max_snoozes: own.max_snoozes.or(defaults.max_snoozes).unwrap_or(100),
            max_crashes: own.max_crashes.or(defaults.max_crashes).unwrap_or(3),
            on: own.policies_over(defaults),
            ttl: own.ttl.or(defaults.ttl).unwrap_or_default(),
            if_exists: own.if_exists.or(defaults.if_exists).unwrap_or(IfExists::Reject),
            unique_for: own.unique_for.or(defaults.unique_for).unwrap_or_default(),
            max_pending: own.max_pending.or(defaults.max_pending).unwrap_or(0),
            retention: own.retention.or(defaults.retention).unwrap_or(7 * DAY),
            max_dead: own.max_dead.or(defaults.max_dead).unwrap_or(100_000),
            done_retention: own.done_retention.or(defaults.done_retention).unwrap_or_default(),
            rate,
            burst: rate.map_or(0, |rate| if burst == 0 { rate.natural_burst() } else { burst }),
            per_key_concurrency: own
                .per_key_concurrency
                .or(defaults.per_key_concurrency)
                .unwrap_or(0),
            order: own.order.or(defaults.order).unwrap_or_default(),
            priorities: own.priorities.or(defaults.priorities).unwrap_or(false),
            shards: own.shards.or(defaults.shards).unwrap_or(1),
            breaker: own.breaker.over(defaults.breaker),
            backoff: own.backoff.or_else(|| defaults.backoff.clone()).unwrap_or_default(),
            rollback: own.rollback.over(defaults.rollback),
            canary: None,
            tests: Vec::new(),
            record: own.record.or(defaults.record).unwrap_or_default(),
            smoke: own.smoke.or_else(|| defaults.smoke.clone()).unwrap_or_default(),
            limits,
            grants: own.sandbox.grants_over(&defaults.sandbox),
            secrets: own.sandbox.secrets_over(&defaults.sandbox),
        }
    }
}

impl Topic {
    /// What becomes of a job whose attempt failed with this class.
    pub fn policy(&self, class: FailureClass) -> Policy {
        self.on.get(&class).copied().unwrap_or_else(|| class.default_policy())
    }

    /// True if a job whose attempt number `attempt` of `max_attempts` failed with this class is dead.
    pub fn is_fatal(&self, class: FailureClass, attempt: u32, max_attempts: u32) -> bool {
        match self.policy(class) {
            Policy::Dead => true,
            Policy::Retry => attempt >= max_attempts,
            Policy::Discard => false,
        }
    }

    /// The grants for loading a module, without secrets, because a secret may change while the module stays.
    pub fn grants_without_secrets(&self) -> Grants {
        let mut grants = self.grants.clone();
        grants.config.retain(|name, _| !self.secrets.contains_key(name));
        grants
    }

    /// The files of its secrets.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        self.secrets.values().filter_map(|source| match source {
            SecretSource::File(path) => Some(path.as_path()),
            SecretSource::Variable(_) => None,
        })
    }

    /// The topic with the module of its canary; `None` without a canary.
    pub fn of_canary(&self) -> Option<Self> {
        let canary = self.canary.as_ref()?;
        let handler = Some(canary.handler.clone());
        Some(Self { handler, sha256: canary.sha256, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::topic_table::Isolation;

    fn settings(max_attempts: Option<u32>, waits: Option<usize>) -> TopicTable {
        let minute = Duration::from_secs(60);
        let backoff = waits.map(|count| Backoff::schedule(vec![minute; count]).unwrap());
        TopicTable { max_attempts, backoff, ..TopicTable::default() }
    }

    #[test]
    fn attempts_of_the_topic_take_precedence() {
        let attempts = |own, defaults| Topic::new(None, own, &defaults).max_attempts;
        let none = || settings(None, None);
        assert_eq!(attempts(none(), none()), 8);
        assert_eq!(attempts(settings(None, Some(3)), none()), 4);
        assert_eq!(attempts(settings(Some(2), Some(3)), none()), 2);
        assert_eq!(attempts(settings(None, Some(3)), settings(Some(5), None)), 4);
        assert_eq!(attempts(none(), settings(Some(5), Some(3))), 5);
        assert_eq!(attempts(none(), settings(None, Some(3))), 4);
    }

    #[test]
    fn policies_merge_class_by_class_and_cover_every_class() {
        let own = TopicTable {
            on: BTreeMap::from([(FailureClass::Trap, Policy::Dead)]),
            ..TopicTable::default()
        };
        let defaults = TopicTable {
            on: BTreeMap::from([
                (FailureClass::Trap, Policy::Discard),
                (FailureClass::Exit, Policy::Discard),
            ]),
            ..TopicTable::default()
        };
        let on = Topic::new(None, own, &defaults).on;
        assert_eq!(on.len(), FailureClass::ALL.len());
        assert_eq!(on[&FailureClass::Trap], Policy::Dead);
        assert_eq!(on[&FailureClass::Exit], Policy::Discard);
        assert_eq!(on[&FailureClass::Timeout], Policy::Retry);
    }

    #[test]
    fn only_warm_topics_reuse_instances() {
        let settings =
            |isolation, warm_jobs| TopicTable { isolation, warm_jobs, ..TopicTable::default() };
        let jobs = |own, defaults| Topic::new(None, own, &defaults).limits.instances.jobs_each;
        let none = || settings(None, None);
        assert_eq!(jobs(none(), none()), 1);
        assert_eq!(jobs(settings(None, Some(7)), none()), 1);
        assert_eq!(jobs(settings(Some(Isolation::Warm), None), none()), 1_000);
        assert_eq!(jobs(settings(Some(Isolation::Warm), None), settings(None, Some(7))), 7);
        assert_eq!(
            jobs(settings(Some(Isolation::Job), None), settings(Some(Isolation::Warm), None)),
            1
        );
        let snapshot = TopicTable { snapshot: Some(true), ..TopicTable::default() };
        assert!(Topic::new(None, TopicTable::default(), &snapshot).limits.instances.snapshot);
    }

    #[test]
    fn a_burst_needs_a_rate() {
        let flow = |rate: Option<&str>, burst| TopicTable {
            rate: rate.map(|text| Rate::parse(text).ok()),
            burst,
            ..TopicTable::default()
        };
        let both = |own, defaults| {
            let topic = Topic::new(None, own, &defaults);
            (topic.rate.is_some(), topic.burst)
        };
        assert_eq!(both(flow(None, None), flow(None, None)), (false, 0));
        assert_eq!(both(flow(Some("100/s"), None), flow(None, None)), (true, 10));
        assert_eq!(both(flow(Some("1/m"), Some(0)), flow(None, Some(5))), (true, 1));
        assert_eq!(both(flow(None, Some(7)), flow(Some("100/s"), None)), (true, 7));
        assert_eq!(both(flow(Some(""), None), flow(Some("100/s"), Some(5))), (false, 0));
    }
}
