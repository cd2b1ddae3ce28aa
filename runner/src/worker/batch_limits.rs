//! Who else has jobs. Redis does one thing at a time: while it runs a turn of a thousand jobs, some ms, the
//! turns of all other topics wait. A topic that is alone takes as many as it can, which costs least; beside
//! others that are busy, all take turns of a size at which nobody waits long; and beside one that needs
//! little, turns so short that it hardly waits at all. If that one has jobs all the time, the busy ones rest
//! after each turn for as long as it took, so that they never have Redis and the processors to themselves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duebox_queue::BATCH_MAX;

/// Jobs of one turn where others are busy too: about a ms of Redis' time.
const BATCH_NEXT_TO_BUSY: usize = BATCH_MAX / 8;
/// Jobs of one turn where another topic needs less than that a turn: some 0.4 ms.
const BATCH_NEXT_TO_QUIET: usize = BATCH_MAX / 16;
/// For how long a topic that has had a job counts.
const RECENT: Duration = Duration::from_secs(10);
/// For how long after a quiet topic's job the busy ones rest: for one that has jobs more seldom, short turns
/// do.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// How long a rest is at most, however long a turn took.
const REST_MAX: Duration = Duration::from_millis(5);

/// All topics of a daemon. Clones are the same limits.
#[derive(Debug, Clone, Default)]
pub struct BatchLimits(Arc<Mutex<RecentTopics>>);

#[derive(Debug, Default)]
struct RecentTopics {
    joined: u64,
    /// Topics whose last turn was a long one.
    busy: Last,
    /// Topics whose last turn was a short one.
    quiet: Last,
}

/// The topics that have had jobs last: the last one, and the last other one.
#[derive(Debug, Default)]
struct Last {
    one: Option<(u64, Instant)>,
    other: Option<(u64, Instant)>,
}

/// One topic among them. Clones are the same topic.
#[derive(Debug, Clone)]
pub struct TopicBatchLimits {
    limits: BatchLimits,
    id: u64,
}

impl BatchLimits {
    /// One more topic.
    pub fn join(&self) -> TopicBatchLimits {
        let mut recent = self.recent();
        recent.joined += 1;
        TopicBatchLimits { limits: self.clone(), id: recent.joined }
    }

    fn recent(&self) -> MutexGuard<'_, RecentTopics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TopicBatchLimits {
    /// This topic has had so many jobs in one turn.
    pub fn record_jobs(&self, jobs: usize, now: Instant) {
        let mut recent = self.limits.recent();
        match jobs < BATCH_NEXT_TO_QUIET {
            true => recent.quiet.note(self.id, now),
            false => recent.busy.note(self.id, now),
        }
    }

    /// How many jobs a turn of this topic may take, of each kind.
    pub fn batch_max(&self, now: Instant) -> usize {
        let recent = self.limits.recent();
        if recent.quiet.has_another(self.id, now, RECENT) {
            BATCH_NEXT_TO_QUIET
        } else if recent.busy.has_another(self.id, now, RECENT) {
            BATCH_NEXT_TO_BUSY
        } else {
            BATCH_MAX
        }
    }

    /// How long this topic should take no turn after a full one that took so long.
    pub fn rest(&self, turn: Duration, now: Instant) -> Duration {
        match self.limits.recent().quiet.has_another(self.id, now, REST_WITHIN) {
            true => turn.min(REST_MAX),
            false => Duration::ZERO,
        }
    }
}

impl Last {
    fn note(&mut self, id: u64, now: Instant) {
        if self.one.is_some_and(|(one, _)| one != id) {
            self.other = self.one;
        }
        self.one = Some((id, now));
    }

    fn has_another(&self, id: u64, now: Instant, lately: Duration) -> bool {
        let another = [self.one, self.other].into_iter().flatten().find(|(seen, _)| *seen != id);
        another.is_some_and(|(_, at)| now.saturating_duration_since(at) < lately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_as_long_as_another_topic_has_jobs() {
        let limits = BatchLimits::default();
        let (one, two) = (limits.join(), limits.join());
        let now = Instant::now();
        assert_eq!((one.batch_max(now), two.batch_max(now)), (BATCH_MAX, BATCH_MAX));
        one.record_jobs(BATCH_MAX, now);
        one.clone().record_jobs(BATCH_MAX, now);
        assert_eq!((one.batch_max(now), two.batch_max(now)), (BATCH_MAX, BATCH_NEXT_TO_BUSY));
        two.record_jobs(BATCH_NEXT_TO_BUSY, now);
        assert_eq!(
            (one.batch_max(now), two.batch_max(now)),
            (BATCH_NEXT_TO_BUSY, BATCH_NEXT_TO_BUSY)
        );
        let later = now + RECENT / 2;
        one.record_jobs(BATCH_MAX, later);
        assert_eq!(
            (one.batch_max(later), two.batch_max(later)),
            (BATCH_NEXT_TO_BUSY, BATCH_NEXT_TO_BUSY)
        );
        let last = now + RECENT;
        assert_eq!((one.batch_max(last), two.batch_max(last)), (BATCH_MAX, BATCH_NEXT_TO_BUSY));
    }

    #[test]
    fn beside_a_topic_that_needs_little_they_are_shortest() {
        let limits = BatchLimits::default();
        let (busy, quiet) = (limits.join(), limits.join());
        let now = Instant::now();
        busy.record_jobs(BATCH_MAX, now);
        quiet.record_jobs(1, now);
        assert_eq!(
            (busy.batch_max(now), quiet.batch_max(now)),
            (BATCH_NEXT_TO_QUIET, BATCH_NEXT_TO_BUSY)
        );
    }

    #[test]
    fn a_busy_topic_rests_as_long_as_it_worked_while_a_quiet_one_has_jobs() {
        let limits = BatchLimits::default();
        let (busy, quiet) = (limits.join(), limits.join());
        let (now, turn) = (Instant::now(), Duration::from_micros(700));
        busy.record_jobs(BATCH_MAX, now);
        assert_eq!(busy.rest(turn, now), Duration::ZERO, "it is alone");
        quiet.record_jobs(1, now);
        assert_eq!(busy.rest(turn, now), turn);
        assert_eq!(busy.rest(Duration::from_secs(9), now), REST_MAX);
        assert_eq!(quiet.rest(turn, now), Duration::ZERO, "the other one is busy");
        assert_eq!(busy.rest(turn, now + REST_WITHIN), Duration::ZERO);
    }
}
