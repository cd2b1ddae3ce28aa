//! What the manifest says of a topic and every verb must know, whoever calls it: it stands in Redis,
//! beside the topic's state.

use std::time::Duration;

use duebox_job::Rate;

use crate::wire::millis::millis;

/// The rules of a topic. The default has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Jobs of one key that run at once; 0 ignores keys.
    pub per_key: u32,
    /// Whether the next of a key passes one that waits for its retry.
    pub relaxed: bool,
    /// Jobs that may wait in pending, ready and blocked; 0 is as many as are pushed.
    pub max_pending: u64,
    /// Jobs that run at once, all runners together; 0 is as many as there are.
    pub max_running: u32,
    /// Jobs that start in a span of time, all runners together.
    pub rate: Option<Rate>,
    /// Jobs that may start at once after a pause; 0 is [`Rate::natural_burst`].
    pub burst: u32,
    /// How long after its due time a job may wait for its start; zero is for ever.
    pub ttl: Duration,
    /// Whether the low priorities get their share beside the high ones.
    pub priorities: bool,
    /// The slots over which the topic is split, at most 64; 0 and 1 are one.
    pub shards: u32,
}

impl Limits {
    pub(crate) fn fields(&self) -> [(&'static str, String); 9] {
        let number = |number: u64| if number == 0 { String::new() } else { number.to_string() };
        let word = |is: bool, word: &str| if is { word.to_owned() } else { String::new() };
        let (rate, burst) = match self.rate {
            None => (String::new(), String::new()),
            Some(rate) => {
                let burst = if self.burst == 0 { rate.natural_burst() } else { self.burst };
                (format!("{:.6}", rate.interval_us()), burst.to_string())
            }
        };
        [
            ("per_key", number(self.per_key.into())),
            ("order", word(self.relaxed, "relaxed")),
            ("max_pending", number(self.max_pending)),
            ("max_running", number(self.max_running.into())),
            ("rate", rate),
            ("burst", burst),
            ("ttl", number(millis(self.ttl))),
            ("priorities", word(self.priorities, "1")),
            ("shards", number(if self.shards > 1 { self.shards.into() } else { 0 })),
        ]
    }
}
