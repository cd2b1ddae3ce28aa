//! A topic with all its settings.
//!
//! Each key of a topic takes precedence over the same key of `[defaults]`, also inside `on` and `sandbox`. A
//! key that neither table sets has the built-in default. A [`Topic`] therefore has no missing value.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox_job::{FailureClass, Policy};
use duebox_queue::IfExists;
use duebox_sandbox::{Digest, Grants, Limits};

use super::case::Case;
use super::failures::BreakerRule;
use super::job_rules::{EndedRetention, RetryRules, StartLimits};
use super::rollout::{Canary, Rollback};
use super::secret::SecretSource;
use super::topic_table::{RecordPolicy, TopicTable};

/// How the jobs of one topic are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The module file; `None` for a topic that is served to pull consumers.
    pub handler: Option<PathBuf>,
    /// The expected SHA-256 of the file; `None` accepts any.
    pub sha256: Option<Digest>,
    /// Jobs that this process runs at once; 1 to 10,000.
    pub concurrency: u32,
    /// The delay of a push without a due time; 0 to ten years.
    pub delay: Duration,
    /// Wall clock of one attempt, from its real start; 1 ms to 24 h.
    pub ttr: Duration,
    /// What a push of a live id does.
    pub if_exists: IfExists,
    /// How long after a job is done its id stays reserved; 0 to ten years.
    pub unique_for: Duration,
    /// Waiting jobs above which a push is refused, at most 1,000,000,000; `None` for no limit.
    pub max_pending: Option<NonZero<u64>>,
    /// When its jobs may start.
    pub starts: StartLimits,
    /// What follows a failed attempt.
    pub retries: RetryRules,
    /// How long ended jobs are kept.
    pub retention: EndedRetention,
    /// Redis slots that the topic is split over; at most 64.
    pub shards: NonZero<u32>,
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

impl Topic {
    /// Merges a topic's settings with those of `[defaults]`.
    pub(super) fn new(handler: Option<PathBuf>, own: TopicTable, defaults: &TopicTable) -> Self {
        let mut limits = own.sandbox.limits_over(&defaults.sandbox);
        limits.instances = own.instances_over(defaults);
        Self {
            handler,
            sha256: None,
            concurrency: own.concurrency.or(defaults.concurrency).unwrap_or(64),
            delay: own.delay.or(defaults.delay).unwrap_or_default(),
            ttr: own.ttr.or(defaults.ttr).unwrap_or(Duration::from_secs(30)),
            if_exists: own.if_exists.or(defaults.if_exists).unwrap_or(IfExists::Reject),
            unique_for: own.unique_for.or(defaults.unique_for).unwrap_or_default(),
            max_pending: own.max_pending.or(defaults.max_pending).and_then(NonZero::new),
            starts: StartLimits::merge(&own, defaults),
            retries: RetryRules::merge(&own, defaults),
            retention: EndedRetention::merge(&own, defaults),
            shards: own.shards.or(defaults.shards).unwrap_or(NonZero::<u32>::MIN),
            breaker: own.breaker.over(defaults.breaker),
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
        self.retries.on.get(&class).copied().unwrap_or_else(|| class.default_policy())
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
}
