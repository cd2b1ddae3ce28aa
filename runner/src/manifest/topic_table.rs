//! A table `[topics.NAME]` or `[defaults]` as it is written: read and checked, not merged yet.
//!
//! A key that a table does not set is `None`. [`Topic::new`](super::topic::Topic::new) merges the settings
//! of a topic with those of `[defaults]`.

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_job::{
    ATTEMPTS_MAX, Backoff, CRASHES_MAX, FailureClass, Policy, Rate, RateError, SNOOZES_MAX,
    TopicName,
};
use duebox_queue::IfExists;
use duebox_sandbox::{Digest, Instances};

use super::case::{Case, read_smoke};
use super::failures::{BreakerTable, read_backoff, read_policies};
use super::rollout::RollbackTable;
use super::sandbox::SandboxTable;
use super::section::Section;
use super::topic::{KeyOrder, RecordPolicy};

/// The longest delay, retention or backoff: ten years.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
const DAY: Duration = Duration::from_secs(86_400);
/// The default of `warm_jobs`.
const WARM_JOBS: u32 = 1_000;

/// Whether jobs of a topic share instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Each job has a fresh instance.
    #[default]
    Job,
    /// An instance runs many jobs, which can see each other's data.
    Warm,
}

/// The keys that the table of a topic, or `[defaults]`, sets.
#[derive(Default, Clone)]
pub(super) struct TopicTable {
    pub(super) concurrency: Option<u32>,
    pub(super) max_running: Option<u32>,
    pub(super) delay: Option<Duration>,
    pub(super) ttr: Option<Duration>,
    pub(super) max_attempts: Option<u32>,
    pub(super) backoff: Option<Backoff>,
    pub(super) max_snoozes: Option<u32>,
    pub(super) max_crashes: Option<u32>,
    pub(super) on: BTreeMap<FailureClass, Policy>,
    pub(super) ttl: Option<Duration>,
    pub(super) if_exists: Option<IfExists>,
    pub(super) unique_for: Option<Duration>,
    pub(super) max_pending: Option<u64>,
    pub(super) retention: Option<Duration>,
    pub(super) max_dead: Option<u64>,
    pub(super) done_retention: Option<Duration>,
    /// `Some(None)` is the empty string, which removes a rate of `[defaults]`.
    pub(super) rate: Option<Option<Rate>>,
    pub(super) burst: Option<u32>,
    pub(super) per_key_concurrency: Option<u32>,
    pub(super) order: Option<KeyOrder>,
    pub(super) shards: Option<u32>,
    pub(super) priorities: Option<bool>,
    pub(super) isolation: Option<Isolation>,
    pub(super) warm_jobs: Option<u32>,
    pub(super) snapshot: Option<bool>,
    pub(super) breaker: BreakerTable,
    pub(super) smoke: Option<Vec<Case>>,
    pub(super) record: Option<RecordPolicy>,
    pub(super) rollback: RollbackTable,
    pub(super) sandbox: SandboxTable,
}

impl TopicTable {
    /// Reads the keys that a topic and `[defaults]` share.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let if_exists = [
            ("reject", IfExists::Reject),
            ("keep", IfExists::Keep),
            ("replace", IfExists::Replace),
        ];
        let isolations = [("job", Isolation::Job), ("warm", Isolation::Warm)];
        let recordings = [("off", RecordPolicy::Off), ("failures", RecordPolicy::Failures)];
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
            breaker: BreakerTable::read(section),
            smoke: read_smoke(section),
            record: section.choice("record", &recordings),
            rollback: RollbackTable::read(section),
            sandbox: SandboxTable::read(section),
        }
    }

    pub(super) fn attempts(&self) -> Option<u32> {
        let listed = || match &self.backoff {
            Some(Backoff::Schedule(waits)) => u32::try_from(waits.len() + 1).ok(),
            _ => None,
        };
        self.max_attempts.or_else(listed)
    }

    pub(super) fn instances_over(&self, defaults: &Self) -> Instances {
        let warm_jobs = self.warm_jobs.or(defaults.warm_jobs).unwrap_or(WARM_JOBS);
        let jobs_each = match self.isolation.or(defaults.isolation).unwrap_or_default() {
            Isolation::Job => 1,
            Isolation::Warm => warm_jobs,
        };
        let snapshot = self.snapshot.or(defaults.snapshot).unwrap_or(false);
        Instances { snapshot, jobs_each }
    }

    pub(super) fn policies_over(&self, defaults: &Self) -> BTreeMap<FailureClass, Policy> {
        let policy = |class: FailureClass| {
            let written = self.on.get(&class).or_else(|| defaults.on.get(&class));
            (class, written.copied().unwrap_or_else(|| class.default_policy()))
        };
        FailureClass::ALL.into_iter().map(policy).collect()
    }
}

/// Reads `sha256`; the empty string pins nothing.
pub(super) fn read_pin(section: &Section<'_>) -> Option<Digest> {
    let text = section.text("sha256").filter(|text| !text.is_empty())?;
    let digest = Digest::from_hex(&text);
    if digest.is_none() {
        let title = format!("`sha256` is not a SHA-256: {text:?}");
        let hint = "write the 64 hex digits that `sha256sum` prints for the module file";
        section.reader().refuse(section.value_at("sha256"), title, hint);
    }
    digest
}

/// Reads `rate`; the empty string means no limit.
fn read_rate(section: &Section<'_>) -> Option<Option<Rate>> {
    let text = section.text("rate")?;
    if text.is_empty() {
        return Some(None);
    }
    let (title, hint) = match Rate::parse(&text) {
        Ok(rate) => return Some(Some(rate)),
        Err(RateError::Form(text)) => (
            format!("`rate`: {text:?} is not a rate"),
            "write jobs per time (s, m, h, d), such as \"100/s\" or \"30/m\"",
        ),
        Err(RateError::Zero) => (
            "`rate` is zero; no job of the topic would run".to_owned(),
            "to stop the topic, use duebox pause; for no limit, write \"\"",
        ),
        Err(error @ RateError::TooHigh(_)) => {
            (format!("`rate`: {error}"), "for no limit, leave `rate` out or write \"\"")
        }
    };
    section.reader().refuse(section.value_at("rate"), title, hint);
    None
}
