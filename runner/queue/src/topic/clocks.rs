//! The clocks of Redis as this process knows them. The shards of a topic may be on servers with different clocks.

use std::collections::HashMap;
use std::time::Instant;

use duebox_job::Shard;
use parking_lot::Mutex;

use crate::wire::redis_clock::RedisClock;

/// Shards in the cache; when it is full, it is emptied.
const REMEMBERED_MAX: usize = 20_000;

/// A cache of the clocks of shards.
#[derive(Default)]
pub(crate) struct KnownClocks(Mutex<HashMap<Shard, RedisClock>>);

impl KnownClocks {
    /// The time at a moment by the clock of a shard's server, µs since the epoch; none if it is not known.
    pub(crate) fn us_at(&self, shard: &Shard, when: Instant) -> Option<u64> {
        self.0.lock().get(shard)?.us_at(when)
    }

    /// The reply of a shard's server to what was sent at `sent_at` arrived at `answered_at` and contained its time.
    pub(crate) fn add_sample(
        &self,
        shard: &Shard,
        sent_at: Instant,
        answered_at: Instant,
        redis_us: u64,
    ) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED_MAX && !known.contains_key(shard) {
            known.clear();
        }
        known.entry(shard.clone()).or_default().add_sample(sent_at, answered_at, redis_us);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duebox_job::TopicName;

    use super::*;

    #[test]
    fn each_shard_has_its_clock() {
        let (clocks, topic, now) =
            (KnownClocks::default(), TopicName::new("t").unwrap(), Instant::now());
        clocks.add_sample(&topic.shard(0), now, now, 1_000_000);
        clocks.add_sample(&topic.shard(1), now, now, 9_000_000);
        let later = now + Duration::from_secs(1);
        assert_eq!(clocks.us_at(&topic.shard(0), later), Some(2_000_000));
        assert_eq!(clocks.us_at(&topic.shard(1), later), Some(10_000_000));
        assert_eq!(clocks.us_at(&topic.shard(2), later), None);
    }

    #[test]
    fn it_is_bounded() {
        let (clocks, topic, now) =
            (KnownClocks::default(), TopicName::new("t").unwrap(), Instant::now());
        for number in 0..=REMEMBERED_MAX {
            let shard = TopicName::new(&format!("t{number}")).unwrap().shard(0);
            clocks.add_sample(&shard, now, now, 1);
        }
        assert!(clocks.0.lock().len() < REMEMBERED_MAX);
        clocks.add_sample(&topic.shard(0), now, now, 1);
        assert!(clocks.us_at(&topic.shard(0), now).is_some());
    }
}
