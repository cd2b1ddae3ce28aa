//! The rules for the jobs of a topic: when they may start, what follows a failed attempt, and how long ended ones are
//! kept.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use duebox_job::{Backoff, FailureClass, Policy, Rate};

use super::topic_table::{KeyOrder, TopicTable};

const DAY: Duration = Duration::from_secs(86_400);
const MAX_ATTEMPTS: u32 = 8;
const MAX_CRASHES: NonZero<u32> = NonZero::new(3).unwrap();

/// When the jobs of a topic may start, over all runners.
#[derive(Debug, Clone, PartialEq)]
pub struct StartLimits {
    /// Jobs that run at once, at most 1,000,000; `None` for no limit.
    pub max_running: Option<NonZero<u32>>,
    /// How many jobs may start in a span of time; `None` for no limit.
    pub rate: Option<RateLimit>,
    /// Jobs of one key that run at once, at most 10,000; `None` if keys are ignored.
    pub per_key_concurrency: Option<NonZero<u32>>,
    /// Whether a job that waits for its retry holds back the others of its key.
    pub order: KeyOrder,
    /// How long after its due time a job may start first, at most ten years; `None` for no limit.
    pub ttl: Option<Duration>,
    /// Whether waiting high, normal and low jobs share the starts, instead of high jobs always first.
    pub priorities: bool,
}

/// How many jobs may start in a span of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    /// The jobs in a span of time.
    pub rate: Rate,
    /// How many jobs may start at once after a pause; at most 1,000,000.
    pub burst: NonZero<u32>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRules {
    /// Attempts in all; 1 to 999,999.
    pub max_attempts: u32,
    /// The waits between attempts.
    pub backoff: Backoff,
    /// How often a handler may snooze a job; 0 to 1,000,000.
    pub max_snoozes: u32,
    /// Runs that may end with the runner's death; at most 999.
    pub max_crashes: NonZero<u32>,
    /// The policy of each failure class; contains every class.
    pub on: BTreeMap<FailureClass, Policy>,
}

/// How long ended jobs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedRetention {
    /// How long dead jobs are kept; 0 to ten years.
    pub dead: Duration,
    /// How long done jobs are kept with their result, at most ten years; `None` if they are not kept.
    pub done: Option<Duration>,
    /// How many dead jobs are kept, and how many done ones; 0 to 100,000,000.
    pub max_dead: u64,
}

impl StartLimits {
    pub(super) fn merge(own: &TopicTable, defaults: &TopicTable) -> Self {
        let per_key = own.per_key_concurrency.or(defaults.per_key_concurrency);
        Self {
            max_running: own.max_running.or(defaults.max_running).and_then(NonZero::new),
            rate: RateLimit::merge(own, defaults),
            per_key_concurrency: per_key.and_then(NonZero::new),
            order: own.order.or(defaults.order).unwrap_or_default(),
            ttl: own.ttl.or(defaults.ttl).filter(|ttl| !ttl.is_zero()),
            priorities: own.priorities.or(defaults.priorities).unwrap_or(false),
        }
    }
}

impl RateLimit {
    fn merge(own: &TopicTable, defaults: &TopicTable) -> Option<Self> {
        let rate = own.rate.or(defaults.rate).flatten()?;
        let burst = own.burst.or(defaults.burst).and_then(NonZero::new);
        let natural = || NonZero::new(rate.natural_burst());
        Some(Self { rate, burst: burst.or_else(natural).unwrap_or(NonZero::<u32>::MIN) })
    }
}

impl RetryRules {
    /// An array of backoffs sets the attempts to its length + 1, unless the same table sets `max_attempts`.
    pub(super) fn merge(own: &TopicTable, defaults: &TopicTable) -> Self {
        let backoff = own.backoff.as_ref().or(defaults.backoff.as_ref());
        Self {
            max_attempts: own.attempts().or_else(|| defaults.attempts()).unwrap_or(MAX_ATTEMPTS),
            backoff: backoff.cloned().unwrap_or_default(),
            max_snoozes: own.max_snoozes.or(defaults.max_snoozes).unwrap_or(100),
            max_crashes: own.max_crashes.or(defaults.max_crashes).unwrap_or(MAX_CRASHES),
            on: own.policies_over(defaults),
        }
    }
}

impl EndedRetention {
    pub(super) fn merge(own: &TopicTable, defaults: &TopicTable) -> Self {
        let done = own.done_retention.or(defaults.done_retention);
        Self {
            dead: own.retention.or(defaults.retention).unwrap_or(7 * DAY),
            done: done.filter(|done| !done.is_zero()),
            max_dead: own.max_dead.or(defaults.max_dead).unwrap_or(100_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_attempts: Option<u32>, waits: Option<usize>) -> TopicTable {
        let minute = Duration::from_secs(60);
        let backoff = waits.map(|count| Backoff::schedule(vec![minute; count]).unwrap());
        TopicTable { max_attempts, backoff, ..TopicTable::default() }
    }

    #[test]
    fn attempts_of_the_topic_take_precedence() {
        let attempts = |own, defaults| RetryRules::merge(&own, &defaults).max_attempts;
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
        let on = RetryRules::merge(&own, &defaults).on;
        assert_eq!(on.len(), FailureClass::ALL.len());
        assert_eq!(on[&FailureClass::Trap], Policy::Dead);
        assert_eq!(on[&FailureClass::Exit], Policy::Discard);
        assert_eq!(on[&FailureClass::Timeout], Policy::Retry);
    }

    #[test]
    fn a_burst_needs_a_rate() {
        let flow = |rate: Option<&str>, burst| TopicTable {
            rate: rate.map(|text| Rate::parse(text).ok()),
            burst,
            ..TopicTable::default()
        };
        let burst =
            |own, defaults| RateLimit::merge(&own, &defaults).map(|limit| limit.burst.get());
        assert_eq!(burst(flow(None, None), flow(None, None)), None);
        assert_eq!(burst(flow(Some("100/s"), None), flow(None, None)), Some(10));
        assert_eq!(burst(flow(Some("1/m"), Some(0)), flow(None, Some(5))), Some(1));
        assert_eq!(burst(flow(None, Some(7)), flow(Some("100/s"), None)), Some(7));
        assert_eq!(burst(flow(Some(""), None), flow(Some("100/s"), Some(5))), None);
    }

    #[test]
    fn zero_lifts_a_limit_of_the_defaults() {
        let set = |number| TopicTable {
            max_running: Some(number),
            per_key_concurrency: Some(number),
            ttl: Some(Duration::from_secs(number.into())),
            ..TopicTable::default()
        };
        let limits = StartLimits::merge(&set(0), &set(5));
        assert_eq!(
            (limits.max_running, limits.per_key_concurrency, limits.ttl),
            (None, None, None)
        );
        let limits = StartLimits::merge(&TopicTable::default(), &set(5));
        assert_eq!(
            (limits.max_running, limits.per_key_concurrency),
            (NonZero::new(5), NonZero::new(5))
        );
        assert_eq!(limits.ttl, Some(Duration::from_secs(5)));
    }
}
