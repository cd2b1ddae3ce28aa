//! The limits of a topic, which all runners and producers obey. They are stored in Redis, in the
//! topic's `meta`.

use std::num::NonZero;
use std::time::Duration;

use duebox_job::Rate;

use crate::wire::millis::millis;

/// The limits of a topic as a whole, and the rules by which it is maintained where no daemon binds it. The
/// default sets none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Jobs of one key that run at once; none ignores keys.
    pub per_key: Option<NonZero<u32>>,
    /// Lets the next job of a key pass one that waits for its retry.
    pub relaxed: bool,
    /// Jobs that may wait in pending, ready and blocked.
    pub max_pending: Option<NonZero<u64>>,
    /// Jobs that run at once, on all runners together.
    pub max_running: Option<NonZero<u32>>,
    /// Jobs that start in a span of time, on all runners together.
    pub rate: Option<Rate>,
    /// Jobs that may start at once after a pause; [`Rate::natural_burst`] by default.
    pub burst: Option<NonZero<u32>>,
    /// How long after its due time a job may wait for its start.
    pub ttl: Option<Duration>,
    /// Gives low priorities a share next to the high ones; else high ones go first.
    pub priorities: bool,
    /// The shards over which the topic is split, 1 to 64; one by default.
    pub shards: Option<NonZero<u32>>,
    /// Crashes after which a job is buried, for every caller; the job's own option goes first.
    pub max_crashes: Option<NonZero<u32>>,
    /// How long dead jobs are kept.
    pub retention: Option<Duration>,
    /// How many dead jobs are kept, and how many done ones.
    pub max_dead: Option<u64>,
    /// How long done jobs are kept.
    pub done_retention: Option<Duration>,
}

impl Limits {
    /// The part of one shard, rounded up.
    pub(crate) fn part(&self) -> Self {
        let shards = self.shards.unwrap_or(NonZero::<u32>::MIN);
        let of = |limit: NonZero<u32>| NonZero::new(limit.get().div_ceil(shards.get()));
        Self {
            max_pending: self
                .max_pending
                .and_then(|limit| NonZero::new(limit.get().div_ceil(shards.get().into()))),
            max_running: self.max_running.and_then(of),
            rate: self.rate.map(|rate| Rate::part(rate, shards.get())),
            burst: self.burst.and_then(of),
            max_dead: self.max_dead.map(|most| most.div_ceil(shards.get().into())),
            ..self.clone()
        }
    }

    /// True if a limit holds for leases.
    pub fn hold_for_leases(&self) -> bool {
        let Self { per_key, max_running, rate, ttl, priorities, .. } = self;
        let has_ttl = ttl.is_some_and(|ttl| millis(ttl) > 0);
        per_key.is_some() || max_running.is_some() || rate.is_some() || has_ttl || *priorities
    }

    pub(crate) fn fields(&self) -> [(&'static str, String); 13] {
        let number =
            |number: Option<NonZero<u32>>| number.map_or_else(String::new, |n| n.to_string());
        let word = |is: bool, word: &str| if is { word.to_owned() } else { String::new() };
        let time =
            |time: Option<Duration>| time.map_or_else(String::new, |time| millis(time).to_string());
        let ttl_ms = self.ttl.map(millis).filter(|ms| *ms > 0);
        let (rate, burst) = match self.rate {
            None => (String::new(), String::new()),
            Some(rate) => {
                let burst = self.burst.map_or_else(|| rate.natural_burst(), NonZero::get);
                (format!("{:.6}", rate.interval_us()), burst.to_string())
            }
        };
        [
            ("per_key", number(self.per_key)),
            ("order", word(self.relaxed, "relaxed")),
            ("max_pending", self.max_pending.map_or_else(String::new, |n| n.to_string())),
            ("max_running", number(self.max_running)),
            ("rate", rate),
            ("burst", burst),
            ("ttl", ttl_ms.map_or_else(String::new, |ms| ms.to_string())),
            ("priorities", word(self.priorities, "1")),
            ("shards", number(self.shards.filter(|shards| shards.get() > 1))),
            ("max_crashes", number(self.max_crashes)),
            ("retention", time(self.retention)),
            ("max_dead", self.max_dead.map_or_else(String::new, |most| most.to_string())),
            ("done_retention", time(self.done_retention)),
        ]
    }
}
