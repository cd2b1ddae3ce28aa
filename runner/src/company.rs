//! Who else has jobs. Redis does one thing at a time: while it runs a turn of a thousand jobs, some ms, the
//! turns of all other topics wait. A topic that is alone takes as many as it can, which costs least; where
//! others have had jobs lately, all take turns of a size at which nobody waits long.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use duebox_queue::BATCH_MAX;

/// Jobs of one turn where others have jobs too: about a ms of Redis' time.
const SHARED: usize = BATCH_MAX / 8;
/// For how long a topic that has had a job counts.
const LATELY: Duration = Duration::from_secs(10);

/// All topics of a daemon. Clones are the same company.
#[derive(Debug, Clone, Default)]
pub struct Company(Arc<Mutex<Seen>>);

/// The topics that have had jobs last: the last one, and the last other one.
#[derive(Debug, Default)]
struct Seen {
    joined: u64,
    last: Option<(u64, Instant)>,
    other: Option<(u64, Instant)>,
}

/// One topic among them. Clones are the same topic.
#[derive(Debug, Clone)]
pub struct Member {
    company: Company,
    id: u64,
}

impl Company {
    /// One more topic.
    pub fn join(&self) -> Member {
        let mut seen = self.seen();
        seen.joined += 1;
        Member { company: self.clone(), id: seen.joined }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// This topic has had a job.
    pub fn had_jobs(&self, now: Instant) {
        let mut seen = self.company.seen();
        if seen.last.is_some_and(|(id, _)| id != self.id) {
            seen.other = seen.last;
        }
        seen.last = Some((self.id, now));
    }

    /// How many jobs a turn of this topic may take, of each kind.
    pub fn batch_max(&self, now: Instant) -> usize {
        let seen = self.company.seen();
        let another = [seen.last, seen.other].into_iter().flatten().find(|(id, _)| *id != self.id);
        let lately = another.is_some_and(|(_, at)| now.saturating_duration_since(at) < LATELY);
        if lately { SHARED } else { BATCH_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_as_long_as_another_topic_has_jobs() {
        let company = Company::default();
        let (one, two) = (company.join(), company.join());
        let now = Instant::now();
        assert_eq!((one.batch_max(now), two.batch_max(now)), (BATCH_MAX, BATCH_MAX));
        one.had_jobs(now);
        one.clone().had_jobs(now);
        assert_eq!((one.batch_max(now), two.batch_max(now)), (BATCH_MAX, SHARED));
        two.had_jobs(now);
        assert_eq!((one.batch_max(now), two.batch_max(now)), (SHARED, SHARED));
        let later = now + LATELY / 2;
        one.had_jobs(later);
        assert_eq!((one.batch_max(later), two.batch_max(later)), (SHARED, SHARED));
        let last = now + LATELY;
        assert_eq!((one.batch_max(last), two.batch_max(last)), (BATCH_MAX, SHARED));
    }
}
