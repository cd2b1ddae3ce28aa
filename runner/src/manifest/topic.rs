//! `[topics.NAME]` and `[defaults]`: how the jobs of a topic are run.
//!
//! Both tables are read into [`TopicSettings`], where each key may be absent. A topic's own keys stand
//! over the defaults, key by key (also inside `on` and `sandbox`), and what neither sets has the
//! value of the reference. So a [`Topic`] has no absent value left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox_job::{
    ATTEMPTS_MAX, Backoff, CRASHES_MAX, FailureClass, Policy, Rate, RateError, SNOOZES_MAX,
    TopicName,
};
use duebox_queue::IfExists;
use duebox_sandbox::{Digest, Grants, Instances, Limits};

use super::failures::{BreakerRule, BreakerSettings, read_backoff, read_policies};
use super::rollout::{Canary, Rollback, RollbackSettings};
use super::sandbox::SandboxSettings;
use super::secret::SecretSource;
use super::section::Section;
use super::smoke::{SmokeCase, read_smoke};

/// The longest delay, retention or backoff: ten years.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);
const MAX_ATTEMPTS: u32 = 8;
/// Jobs of a warm instance.
const WARM_JOBS: u32 = 1_000;

/// How the jobs of one topic are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The module's file; none for a topic that is served to pull consumers.
    pub handler: Option<PathBuf>,
    /// What the file must be; none for any.
    pub sha256: Option<Digest>,
    /// Jobs of this topic that this process runs at once; 1 to 10,000.
    pub concurrency: u32,
    /// Jobs of this topic that all runners together run at once; 0 (off) to 1,000,000.
    pub max_running: u32,
    /// The delay of a push that names none; 0 to ten years.
    pub delay: Duration,
    /// Wall clock of one attempt, from its real start; 1 ms to 24 h.
    pub ttr: Duration,
    /// Attempts a job has in all; 1 to 999,999.
    pub max_attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// Times a handler may put a job off; 0 to 1,000,000.
    pub max_snoozes: u32,
    /// Runs that may end with the runner's death; 1 to 999.
    pub max_crashes: u32,
    /// What is done about each class of failure; every class is in it.
    pub on: BTreeMap<FailureClass, Policy>,
    /// How long after its due time a job may wait for its first start; 0 (for ever) to ten years.
    pub ttl: Duration,
    /// What a push does about an id that is alive.
    pub if_exists: IfExists,
    /// How long after a job is done its id is refused; 0 to ten years.
    pub unique_for: Duration,
    /// Waiting jobs above which a push is refused; 0 (off) to 1,000,000,000.
    pub max_pending: u64,
    /// How long dead jobs are kept; 0 to ten years.
    pub retention: Duration,
    /// How many dead jobs are kept, and how many done ones; 0 to 100,000,000.
    pub max_dead: u64,
    /// How long done jobs are kept with their result; 0 to ten years.
    pub done_retention: Duration,
    /// How many jobs may start in a span of time, all runners together.
    pub rate: Option<Rate>,
    /// How many of them may start at once; 1 to 1,000,000, and 0 where there is no rate.
    pub burst: u32,
    /// Jobs of one key that run at once, all runners together; 0 (keys mean nothing) to 10,000.
    pub per_key_concurrency: u32,
    /// Whether a job that waits for its retry holds back the others of its key.
    pub order: KeyOrder,
    /// Whether high and low jobs are told from normal ones.
    pub priorities: bool,
    /// Slots of Redis the topic is split over; 1 to 64.
    pub shards: u32,
    /// When its jobs are held back because its handler fails.
    pub breaker: BreakerRule,
    /// When a new module gives way to the one before.
    pub rollback: Rollback,
    /// Another module that runs a part of the jobs.
    pub canary: Option<Canary>,
    /// Jobs that a module must pass before it serves, at most 100.
    pub smoke: Vec<SmokeCase>,
    /// What the sandbox allows a handler to use.
    pub limits: Limits,
    /// What the sandbox gives a handler; the values of its secrets are in its config.
    pub grants: Grants,
    /// Where each secret of the handler is kept.
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Whether a job that waits for its retry holds back the others of its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// It does: the jobs of a key run in the order of their pushes.
    #[default]
    Strict,
    /// It does not: the next of the key passes.
    Relaxed,
}

/// What keeps one job of a topic apart from the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Isolation {
    /// A fresh instance for every job.
    #[default]
    Job,
    /// Only the guest's own good will.
    Warm,
}

/// The keys of a topic or of `[defaults]`, as far as they are written.
#[derive(Default, Clone)]
pub(super) struct TopicSettings {
    concurrency: Option<u32>,
    max_running: Option<u32>,
    delay: Option<Duration>,
    ttr: Option<Duration>,
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    max_snoozes: Option<u32>,
    max_crashes: Option<u32>,
    on: BTreeMap<FailureClass, Policy>,
    ttl: Option<Duration>,
    if_exists: Option<IfExists>,
    unique_for: Option<Duration>,
    max_pending: Option<u64>,
    retention: Option<Duration>,
    max_dead: Option<u64>,
    done_retention: Option<Duration>,
    /// `Some(None)` is the empty text, which lifts a rate of the defaults.
    rate: Option<Option<Rate>>,
    pub(super) burst: Option<u32>,
    per_key_concurrency: Option<u32>,
    order: Option<KeyOrder>,
    shards: Option<u32>,
    priorities: Option<bool>,
    isolation: Option<Isolation>,
    warm_jobs: Option<u32>,
    snapshot: Option<bool>,
    breaker: BreakerSettings,
    smoke: Option<Vec<SmokeCase>>,
    rollback: RollbackSettings,
    pub(super) sandbox: SandboxSettings,
}

impl Topic {
    /// Lays a topic's settings over the defaults.
    ///
    /// A list of backoffs sets the attempts unless a number stands beside it or closer to the topic.
    pub(super) fn new(
        handler: Option<PathBuf>,
        own: TopicSettings,
        defaults: &TopicSettings,
    ) -> Self {
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
            smoke: own.smoke.or_else(|| defaults.smoke.clone()).unwrap_or_default(),
            limits,
            grants: own.sandbox.grants_over(&defaults.sandbox),
            secrets: own.sandbox.secrets_over(&defaults.sandbox),
        }
    }
}

impl Topic {
    /// What a module is loaded with: the grants without the values of secrets, which change without it.
    pub fn grants_without_secrets(&self) -> Grants {
        let mut grants = self.grants.clone();
        grants.config.retain(|name, _| !self.secrets.contains_key(name));
        grants
    }

    /// The files that its secrets are kept in.
    pub fn secret_files(&self) -> impl Iterator<Item = &Path> {
        self.secrets.values().filter_map(|source| match source {
            SecretSource::File(path) => Some(path.as_path()),
            SecretSource::Variable(_) => None,
        })
    }

    /// The topic as its canary is loaded: the same with another file. None if it has no canary.
    pub fn of_canary(&self) -> Option<Self> {
        let canary = self.canary.as_ref()?;
        let handler = Some(canary.handler.clone());
        Some(Self { handler, sha256: canary.sha256, ..self.clone() })
    }
}

impl TopicSettings {
    /// Reads the keys that a topic and the defaults share.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let if_exists = [
            ("reject", IfExists::Reject),
            ("keep", IfExists::Keep),
            ("replace", IfExists::Replace),
        ];
        let isolations = [("job", Isolation::Job), ("warm", Isolation::Warm)];
        let orders = [("strict", KeyOrder::Strict), ("relaxed", KeyOrder::Relaxed)];
        let up_to_ten_years = |key| section.duration(key, Duration::ZERO..=LONGEST);
        Self {
            concurrency: section.integer("concurrency", 1..=10_000),
            max_running: section.integer("max_running", 0..=1_000_000),
            delay: up_to_ten_years("delay"),
            ttr: section.duration("ttr", Duration::from_millis(1)..=DAY),
            max_attempts: section.integer("max_attempts", 1..=ATTEMPTS_MAX),
            backoff: read_backoff(section),
            max_snoozes: section.integer("max_snoozes", 0..=SNOOZES_MAX),
            max_crashes: section.integer("max_crashes", 1..=CRASHES_MAX),
            on: read_policies(section),
            ttl: up_to_ten_years("ttl"),
            if_exists: section.choice("if_exists", &if_exists),
            unique_for: up_to_ten_years("unique_for"),
            max_pending: section.integer_u64("max_pending", 0..=1_000_000_000),
            retention: up_to_ten_years("retention"),
            max_dead: section.integer_u64("max_dead", 0..=100_000_000),
            done_retention: up_to_ten_years("done_retention"),
            rate: read_rate(section),
            burst: section.integer("burst", 0..=1_000_000),
            per_key_concurrency: section.integer("per_key_concurrency", 0..=10_000),
            order: section.choice("order", &orders),
            shards: section.integer("shards", 1..=TopicName::SHARDS_MAX),
            priorities: section.boolean("priorities"),
            isolation: section.choice("isolation", &isolations),
            warm_jobs: section.integer("warm_jobs", 1..=1_000_000),
            snapshot: section.boolean("snapshot"),
            breaker: BreakerSettings::read(section),
            smoke: read_smoke(section),
            rollback: RollbackSettings::read(section),
            sandbox: SandboxSettings::read(section),
        }
    }

    fn attempts(&self) -> Option<u32> {
        let listed = || match &self.backoff {
            Some(Backoff::Schedule(waits)) => u32::try_from(waits.len() + 1).ok(),
            _ => None,
        };
        self.max_attempts.or_else(listed)
    }

    fn instances_over(&self, defaults: &Self) -> Instances {
        let warm_jobs = self.warm_jobs.or(defaults.warm_jobs).unwrap_or(WARM_JOBS);
        let jobs_each = match self.isolation.or(defaults.isolation).unwrap_or_default() {
            Isolation::Job => 1,
            Isolation::Warm => warm_jobs,
        };
        let snapshot = self.snapshot.or(defaults.snapshot).unwrap_or(false);
        Instances { snapshot, jobs_each }
    }

    fn policies_over(&self, defaults: &Self) -> BTreeMap<FailureClass, Policy> {
        let policy = |class: FailureClass| {
            let written = self.on.get(&class).or_else(|| defaults.on.get(&class));
            (class, written.copied().unwrap_or_else(|| class.default_policy()))
        };
        FailureClass::ALL.into_iter().map(policy).collect()
    }
}

/// Reads `sha256`; the empty text pins nothing.
pub(super) fn read_pin(section: &Section<'_>) -> Option<Digest> {
    let text = section.text("sha256").filter(|text| !text.is_empty())?;
    let digest = Digest::from_hex(&text);
    if digest.is_none() {
        let title = format!("`sha256` is {text:?}, which is no SHA-256");
        let hint = "write the 64 hex digits that `sha256sum` prints for the module's file";
        section.reader().refuse(section.value_at("sha256"), title, hint);
    }
    digest
}

/// Reads `rate`; the empty text is no rate.
fn read_rate(section: &Section<'_>) -> Option<Option<Rate>> {
    let text = section.text("rate")?;
    if text.is_empty() {
        return Some(None);
    }
    let (title, hint) = match Rate::parse(&text) {
        Ok(rate) => return Some(Some(rate)),
        Err(RateError::Form(text)) => (
            format!("`rate`: {text:?} is no rate"),
            "write jobs per time (s, m, h, d), such as \"100/s\" or \"30/m\"",
        ),
        Err(RateError::Zero) => (
            "`rate` is zero: no job of the topic would ever run".to_owned(),
            "to hold the topic, pause it; for no limit, leave `rate` out or write \"\"",
        ),
        Err(error @ RateError::TooHigh(_)) => {
            (format!("`rate`: {error}"), "leave `rate` out, or write \"\", for no limit")
        }
    };
    section.reader().refuse(section.value_at("rate"), title, hint);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_attempts: Option<u32>, waits: Option<usize>) -> TopicSettings {
        let minute = Duration::from_secs(60);
        let backoff = waits.map(|count| Backoff::schedule(vec![minute; count]).unwrap());
        TopicSettings { max_attempts, backoff, ..TopicSettings::default() }
    }

    #[test]
    fn the_closest_word_on_attempts_counts() {
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
        let own = TopicSettings {
            on: BTreeMap::from([(FailureClass::Trap, Policy::Dead)]),
            ..TopicSettings::default()
        };
        let defaults = TopicSettings {
            on: BTreeMap::from([
                (FailureClass::Trap, Policy::Discard),
                (FailureClass::Exit, Policy::Discard),
            ]),
            ..TopicSettings::default()
        };
        let on = Topic::new(None, own, &defaults).on;
        assert_eq!(on.len(), FailureClass::ALL.len());
        assert_eq!(on[&FailureClass::Trap], Policy::Dead);
        assert_eq!(on[&FailureClass::Exit], Policy::Discard);
        assert_eq!(on[&FailureClass::Timeout], Policy::Retry);
    }

    #[test]
    fn only_a_warm_topic_keeps_instances() {
        let settings = |isolation, warm_jobs| TopicSettings {
            isolation,
            warm_jobs,
            ..TopicSettings::default()
        };
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
        let snapshot = TopicSettings { snapshot: Some(true), ..TopicSettings::default() };
        assert!(Topic::new(None, TopicSettings::default(), &snapshot).limits.instances.snapshot);
    }

    #[test]
    fn a_burst_belongs_to_a_rate() {
        let flow = |rate: Option<&str>, burst| TopicSettings {
            rate: rate.map(|text| Rate::parse(text).ok()),
            burst,
            ..TopicSettings::default()
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
