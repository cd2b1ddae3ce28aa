//! Limits the size of a topic's turns while other topics have jobs. Redis runs one turn at a time: a turn
//! of a thousand jobs takes some milliseconds, and the turns of all other topics wait for it.
//!
//! - A topic that is alone takes full batches, which cost least per job.
//! - Next to other busy topics, all take [`BATCH_NEXT_TO_BUSY`] jobs a turn.
//! - Next to a quiet topic, all take [`BATCH_NEXT_TO_QUIET`] jobs a turn. If the quiet topic has jobs all
//!   the time, the busy ones rest after each turn for as long as it took, so that they never use all of Redis
//!   and of the CPU.
//! - Only a topic that is alone has two turns under way at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_queue::BATCH_MAX;
use parking_lot::{Mutex, MutexGuard};

/// Jobs in one turn next to a busy topic: about 1 ms of Redis' time.
const BATCH_NEXT_TO_BUSY: usize = BATCH_MAX / 8;
/// Jobs in one turn next to a topic with fewer jobs a turn than this: about 0.4 ms of Redis' time.
const BATCH_NEXT_TO_QUIET: usize = BATCH_MAX / 16;
/// A topic counts for so long after its last job.
const RECENT: Duration = Duration::from_secs(10);
/// Busy topics rest while a quiet topic had a job within this time. For a quiet topic with rarer jobs,
/// short turns are enough.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// The longest rest, however long a turn took.
const REST_MAX: Duration = Duration::from_millis(5);

/// A turn with so many jobs takes Redis about half a millisecond or more, in which another one can be prepared.
const LARGE_TURN: usize = BATCH_MAX / 4;

/// The batch limits of all topics of a daemon. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct BatchLimits(Arc<Mutex<RecentTopics>>);

#[derive(Debug, Default)]
struct RecentTopics {
    joined: u64,
    /// What counts as a large turn in a simulation.
    simulated_large: Option<usize>,
    /// Topics whose last turn was large.
    busy: Last,
    /// Topics whose last turn was small.
    quiet: Last,
}

/// The last topic that had jobs, and the last one other than that.
#[derive(Debug, Default)]
struct Last {
    one: Option<(u64, Instant)>,
    other: Option<(u64, Instant)>,
}

/// The batch limits of one topic. Clones stand for the same topic.
#[derive(Debug, Clone)]
pub struct TopicBatchLimits {
    limits: BatchLimits,
    id: u64,
}

impl BatchLimits {
    /// For simulations, whose turns are small: a turn with so many jobs is large, whatever other topics do.
    pub fn with_large_turn(jobs: usize) -> Self {
        let recent = RecentTopics { simulated_large: Some(jobs), ..RecentTopics::default() };
        Self(Arc::new(Mutex::new(recent)))
    }

    /// Registers a topic.
    pub fn join(&self) -> TopicBatchLimits {
        let mut recent = self.recent();
        recent.joined += 1;
        TopicBatchLimits { limits: self.clone(), id: recent.joined }
    }

    fn recent(&self) -> MutexGuard<'_, RecentTopics> {
        self.0.lock()
    }
}

impl TopicBatchLimits {
    /// Records that this topic had so many jobs in one turn.
    pub fn record_jobs(&self, jobs: usize, now: Instant) {
        let mut recent = self.limits.recent();
        match jobs < BATCH_NEXT_TO_QUIET {
            true => recent.quiet.note(self.id, now),
            false => recent.busy.note(self.id, now),
        }
    }

    /// How many jobs a turn of this topic may lease, and how many it may settle.
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

    /// With how many jobs a turn is large: two large turns of this topic may be under way at once. While another
    /// topic has jobs, no turn counts as large.
    pub fn large_turn(&self, now: Instant) -> Option<usize> {
        let simulated = self.limits.recent().simulated_large;
        simulated.or_else(|| (self.batch_max(now) == BATCH_MAX).then_some(LARGE_TURN))
    }

    /// How long this topic rests after a full turn that took `turn`.
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
    fn turns_are_short_while_another_topic_has_jobs() {
        let limits = BatchLimits::default();
        let (one, two) = (limits.join(), limits.join());
        let now = Instant::now();
        assert_eq!((one.batch_max(now), two.batch_max(now)), (BATCH_MAX, BATCH_MAX));
        one.record_jobs(BATCH_MAX, now);
        one.clone().record_jobs(BATCH_MAX, now);
        assert_eq!((one.large_turn(now), two.large_turn(now)), (Some(LARGE_TURN), None));
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
    fn next_to_a_quiet_topic_turns_are_shortest() {
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
    fn a_busy_topic_rests_for_the_length_of_its_turn_while_a_quiet_one_has_jobs() {
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
