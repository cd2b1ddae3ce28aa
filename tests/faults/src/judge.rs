//! Judges a row by its ledger and by the final state of Redis.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::ledger::{Answer, Books, Name, Run};
use crate::plan::{PULLED, Plan, TICK_MS, TICKS, Verdict as RunVerdict, key_of};
use crate::queue_state::QueueState;

mod pushes;
#[cfg(test)]
mod tests;

/// How long before a break a verdict may still be under way to Redis, and how long after it a job may report that it
/// runs: it counts its run in the store first, which waits for Redis.
const UNDER_WAY: Duration = Duration::from_millis(500);
/// How far a daemon may grow. Of 21 rows none grew by more than 8 MiB.
const GROWTH_MAX_MIB: u64 = 16;
/// The part of the confirmed pushes, in percent, that must lie outside the times of loss: only those can be found
/// lost.
const JUDGED_MIN: usize = 50;
/// How much earlier than a lease lasts a job may run again: the death is noted a moment after the kill.
const EARLY: Duration = Duration::from_millis(200);
/// Problems of one kind that are named.
const NAMED_MAX: usize = 4;

/// What a row may do.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    /// The longest time until work goes on after a fault.
    pub(crate) resume_max: Duration,
    /// How far the memory of a daemon may grow, in MiB.
    pub(crate) growth_max_mib: u64,
    /// The topics' stores keep their counts.
    pub(crate) keeps_counts: bool,
    /// Ticks of the schedule come once each.
    pub(crate) keeps_ticks: bool,
    /// Handlers may be interrupted, so a count may be without a report.
    pub(crate) breaks_runs: bool,
}

impl Default for Policy {
    fn default() -> Self {
        let resume_max = Duration::from_secs(1);
        Self {
            resume_max,
            growth_max_mib: GROWTH_MAX_MIB,
            keeps_counts: true,
            keeps_ticks: true,
            breaks_runs: false,
        }
    }
}

impl Policy {
    /// Runners die: their jobs wait for the end of their leases.
    pub(crate) fn dead_runners(lease: Duration) -> Self {
        let resume_max = lease + Duration::from_secs(1);
        Self { resume_max, breaks_runs: true, ..Self::default() }
    }

    /// Redis loses data.
    pub(crate) fn lost_data() -> Self {
        Self { keeps_counts: false, keeps_ticks: false, breaks_runs: true, ..Self::default() }
    }
}

/// The figures of a row.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) confirmed: usize,
    /// Without an answer, and found when a daemon was asked later; they count as confirmed.
    pub(crate) found: usize,
    pub(crate) ended: usize,
    pub(crate) lost: usize,
    /// Lost together with the data that Redis lost.
    pub(crate) lost_with_data: usize,
    pub(crate) duplicates: usize,
    /// Repeated because a lease was broken.
    pub(crate) repeats: usize,
    pub(crate) dead: BTreeMap<String, usize>,
    pub(crate) resumed: Option<Duration>,
    /// Of the largest daemon, before and after the faults.
    pub(crate) memory_kib: (u64, u64),
    /// What the row adds to its figures.
    pub(crate) notes: Vec<String>,
    /// What must not be; the row passes without any.
    pub(crate) problems: Vec<String>,
}

/// Judges a row.
pub(crate) fn judge(
    books: &Books,
    state: &QueueState,
    policy: &Policy,
    memory_kib: (u64, u64),
) -> Verdict {
    let mut verdict = Verdict { memory_kib, ..Verdict::default() };
    let judge = Judge { ended: ended(books), books, state, policy };
    judge.pushes(&mut verdict);
    judge.repeats(&mut verdict);
    judge.attempts(&mut verdict);
    judge.dead(&mut verdict);
    judge.keys(&mut verdict);
    judge.ticks(&mut verdict);
    judge.counts(&mut verdict);
    judge.resumption(&mut verdict);
    let growth_mib = memory_kib.1.saturating_sub(memory_kib.0) >> 10;
    if growth_mib > policy.growth_max_mib {
        let max = policy.growth_max_mib;
        verdict
            .problems
            .push(format!("the daemon's memory grew by {growth_mib} MiB, {max} at most"));
    }
    verdict
}

struct Judge<'b> {
    books: &'b Books,
    state: &'b QueueState,
    policy: &'b Policy,
    ended: HashSet<&'b Name>,
}

/// Jobs with a run that was told to end them.
fn ended(books: &Books) -> HashSet<&Name> {
    let ends =
        |run: &&Run| run.verdict != RunVerdict::Nack && run.answered.is_some() || run.is_uncertain;
    books.runs.iter().filter(ends).map(|run| &run.name).collect()
}

impl<'b> Judge<'b> {
    /// A run may follow a whole one of the same attempt only if a lease was broken in between.
    fn repeats(&self, verdict: &mut Verdict) {
        let mut whole: HashMap<(&Name, u32), Vec<&Run>> = HashMap::new();
        let judged = |run: &&Run| self.policy.keeps_ticks || run.name.topic != TICKS;
        for run in self.books.runs.iter().filter(|run| run.answered.is_some()).filter(judged) {
            whole.entry((&run.name, run.attempt)).or_default().push(run);
        }
        let mut wrong = Vec::new();
        for ((name, attempt), mut runs) in whole {
            runs.sort_by_key(|run| run.answered);
            for pair in runs.windows(2) {
                if self.was_broken(pair[0]) || self.was_frozen(pair[1]) {
                    verdict.repeats += 1;
                } else {
                    wrong.push(Name::new(&name.topic, &format!("{}#{attempt}", name.id)));
                }
            }
        }
        verdict.duplicates = wrong.len();
        name_some("ran again without a broken lease", &wrong, verdict);
        let twice = self.books.done.iter().filter(|(_, times)| **times > 1);
        let twice: Vec<Name> = twice.map(|(name, _)| name.clone()).collect();
        if self.books.losses.is_empty() && self.policy.keeps_ticks {
            name_some("logged as done twice", &twice, verdict);
        }
    }

    /// Whether the verdict of this run may not have reached Redis.
    fn was_broken(&self, run: &Run) -> bool {
        let Some(answered) = run.answered else { return true };
        self.books.breaks.iter().any(|broken| {
            let is_its = broken.by.is_empty() || broken.by == run.by;
            let is_after = broken.to.is_none_or(|to| run.began <= to + UNDER_WAY);
            is_its && is_after && answered + UNDER_WAY >= broken.from
        })
    }

    /// Whether the runner was frozen between its lease of the job and the end of this run: then the lease had passed to the
    /// runner of the run before it.
    fn was_frozen(&self, run: &Run) -> bool {
        let freezes = self.books.breaks.iter().filter(|broken| broken.by == run.by);
        let spans = freezes.filter_map(|broken| Some((broken.from, broken.to?)));
        let ended = |from| run.answered.is_some_and(|answered| answered >= from);
        spans.into_iter().any(|(from, to)| run.began <= to + UNDER_WAY && ended(from))
    }

    /// A fault spends no attempt.
    fn attempts(&self, verdict: &mut Verdict) {
        let spent = self.books.runs.iter().filter(|run| run.attempt > run.name.plan().attempts());
        let spent: BTreeSet<&Name> = spent.map(|run| &run.name).collect();
        let spent: Vec<Name> = spent.into_iter().cloned().collect();
        name_some("spent an attempt", &spent, verdict);
    }

    fn dead(&self, verdict: &mut Verdict) {
        let mut wrong = Vec::new();
        for (name, class) in &self.state.dead {
            *verdict.dead.entry(class.clone()).or_default() += 1;
            if class != "drop" || name.plan() != Plan::Drop {
                wrong.push(Name::new(&name.topic, &format!("{} ({class})", name.id)));
            }
        }
        name_some("dead against its plan", &wrong, verdict);
    }

    /// Jobs of one key run one at a time, in the order of their pushes.
    fn keys(&self, verdict: &mut Verdict) {
        if !self.books.losses.is_empty() {
            return;
        }
        // A runner that was frozen may begin a job whose lease has ended.
        let was_frozen = |place: usize| self.was_frozen(&self.books.runs[place]);
        let overlaps = self.books.overlaps.iter();
        let wrong = overlaps.filter(|(one, other)| !was_frozen(*one) && !was_frozen(*other));
        let both: Vec<Name> = wrong.map(|pair| self.books.runs[pair.1].name.clone()).collect();
        name_some("ran next to another job of its key", &both, verdict);
        let mut first: HashMap<&Name, Instant> = HashMap::new();
        for run in &self.books.runs {
            first.entry(&run.name).or_insert(run.began);
        }
        let mut pushed: BTreeMap<&str, Vec<(Instant, &Name)>> = BTreeMap::new();
        for (name, push) in self.books.pushes.iter().filter(|(_, push)| push.answer == Answer::Ok) {
            if let Some(key) = key_of(&name.topic, &name.id) {
                pushed.entry(key).or_default().push((push.sent, name));
            }
        }
        let mut late = Vec::new();
        for names in pushed.values_mut() {
            names.sort();
            let runs = names.iter().filter_map(|(_, name)| Some((*first.get(name)?, *name)));
            let runs: Vec<(Instant, &Name)> = runs.collect();
            let passed = runs.windows(2).filter(|pair| pair[0].0 > pair[1].0);
            late.extend(passed.map(|pair| pair[0].1.clone()));
        }
        name_some("ran after a later job of its key", &late, verdict);
    }

    /// Between the first and the last tick that ended none may be missing.
    fn ticks(&self, verdict: &mut Verdict) {
        let ticks = self.ended.iter().filter(|name| name.topic == TICKS);
        let at = |name: &&&Name| name.id.split('@').nth(1)?.parse::<i64>().ok();
        let mut ticks: Vec<i64> = ticks.filter_map(|name| at(&name)).collect();
        ticks.sort_unstable();
        // The last ones may still run.
        ticks.truncate(ticks.len().saturating_sub(3));
        let missing: i64 = ticks.windows(2).map(|pair| (pair[1] - pair[0]) / TICK_MS - 1).sum();
        if missing > 0 && self.policy.keeps_ticks {
            verdict.problems.push(format!("{missing} ticks of the schedule are missing"));
        }
    }

    /// Each run counts once in its topic's store.
    fn counts(&self, verdict: &mut Verdict) {
        if !self.policy.keeps_counts {
            return;
        }
        let mut counts: HashMap<&str, Vec<i64>> = HashMap::new();
        let mut failed = 0;
        for run in self.books.runs.iter().filter(|run| run.name.topic != PULLED) {
            match run.count {
                Some(count) => counts.entry(&run.name.topic).or_default().push(count),
                None => failed += 1,
            }
        }
        for (topic, counts) in counts {
            let (all, last) = (counts.len() as i64, counts.iter().max().copied().unwrap_or(0));
            let distinct = counts.iter().collect::<HashSet<_>>().len() as i64;
            let gaps = last - distinct;
            if all > distinct {
                let twice = all - distinct;
                verdict.problems.push(format!("{topic}: {twice} additions to a count were lost"));
            }
            if gaps > failed && !self.policy.breaks_runs {
                verdict
                    .problems
                    .push(format!("{topic}: {gaps} additions to a count without a run"));
            }
        }
    }

    /// How long a job waited after the death of its runner. The next runner that leased it may have died before the job
    /// could report that it runs: then it waited for a second lease, and the time since that death counts. A third one
    /// in a row is not believed.
    fn wait_after_deaths(&self, died: Instant, again: Instant) -> Duration {
        let (wait, max) = (again.saturating_duration_since(died), self.policy.resume_max);
        let lease = max.saturating_sub(Policy::default().resume_max);
        if wait <= max || wait > max + lease {
            return wait;
        }
        let deaths = self.books.breaks.iter().filter(|broken| broken.to.is_none());
        let since = deaths.filter(|death| death.from > died && death.from < again);
        let since = since.map(|death| again - death.from);
        since.filter(|since| *since + EARLY >= lease && *since <= max).min().unwrap_or(wait)
    }

    /// The time from the end of a fault to the next run, and from a runner's death to the next run of its jobs.
    fn resumption(&self, verdict: &mut Verdict) {
        let runs = &self.books.runs;
        let next = |at: Instant| runs.iter().map(|run| run.began).filter(|began| *began > at).min();
        let (mut waits, mut nothing) = (Vec::new(), 0);
        for end in &self.books.ends {
            match next(*end) {
                Some(began) => waits.push(began - *end),
                None => nothing += 1,
            }
        }
        if nothing > 0 {
            verdict.problems.push(format!("nothing ran after {nothing} faults"));
        }
        let mut never = Vec::new();
        for broken in self.books.breaks.iter().filter(|broken| broken.to.is_none()) {
            let held = runs.iter().filter(|run| run.by == broken.by && run.answered.is_none());
            for run in held {
                let later = runs.iter().filter(|other| other.name == run.name);
                match later.map(|run| run.began).filter(|began| *began > run.began).min() {
                    Some(again) => waits.push(self.wait_after_deaths(broken.from, again)),
                    None if self.books.losses.is_empty() => never.push(run.name.clone()),
                    None => {}
                }
            }
        }
        name_some("never ran again after the death of their runner", &never, verdict);
        verdict.resumed = waits.into_iter().max();
        if let Some(resumed) = verdict.resumed.filter(|resumed| *resumed > self.policy.resume_max) {
            let max = self.policy.resume_max;
            verdict.problems.push(format!("work went on after {resumed:.1?}, {max:.1?} at most"));
        }
    }
}

fn name_some(what: &str, names: &[Name], verdict: &mut Verdict) {
    if names.is_empty() {
        return;
    }
    let some = names.iter().take(NAMED_MAX).map(|name| format!("{}/{}", name.topic, name.id));
    let some = some.collect::<Vec<_>>().join(", ");
    verdict.problems.push(format!("{} {what}: {some}", names.len()));
}
