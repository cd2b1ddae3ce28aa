//! What producers were told, and what handlers did: kept outside of Redis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::witness::{Moment, Witness};

/// How long a run may go on after another runner has started the job: the resolution of the timers.
const OVERLAP_MAX: Duration = Duration::from_millis(5);
/// How long a drain may take after its deadline: a second for verdicts, and the resolution of the timers.
const AFTER_DRAIN_MAX: Duration = Duration::from_millis(1_005);

/// The ledger. Clones are the same ledger.
#[derive(Clone)]
pub(crate) struct Ledger {
    book: Arc<Mutex<Book>>,
    witness: Witness,
}

/// The content of the ledger.
#[derive(Default)]
pub(crate) struct Book {
    /// The accounts by job.
    pub(crate) accounts: BTreeMap<String, Account>,
    /// What must not happen and did.
    pub(crate) violations: Vec<String>,
    /// Additions of handlers to a number in the store: calls, and those of them that were confirmed.
    pub(crate) additions: (u64, u64),
    /// How long each drain took.
    pub(crate) drains: Vec<Duration>,
    /// How many runs have begun.
    begun: u64,
    running: Vec<Running>,
}

/// What is known of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// The results of its pushes.
    pub(crate) pushes: Vec<PushResult>,
    /// When the last of them had its result.
    pub(crate) pushed_by: Moment,
    /// Its runs, in the order of their starts.
    pub(crate) runs: Vec<Run>,
    /// The cancellation, if one was tried.
    pub(crate) cancelled: Option<Told>,
    /// The push of another version in its place, if one was tried.
    pub(crate) replaced: Option<Told>,
}

/// The result of one push as the producer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// Redis confirmed it, or that the job is there.
    Confirmed,
    /// Redis refused it.
    Refused,
    /// There was no reply.
    Unknown,
}

/// What the caller of a command was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It changed nothing.
    Nothing,
    /// It was carried out; when that was known.
    Done(Moment),
    /// There was no reply.
    Unknown,
}

/// One run of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The daemon, by its link.
    pub(crate) daemon: u64,
    /// When Redis leased the job.
    pub(crate) leased_at: Moment,
    /// When it began.
    pub(crate) began: Moment,
    /// How many runs of all jobs began before it: runs of one moment have an order, too.
    pub(crate) place: u64,
    /// When and how it ended.
    pub(crate) ended: Option<(Moment, End)>,
    /// The version of the job: 1, or 2 if it was replaced.
    pub(crate) version: u8,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an ack.
    Acked,
    /// With a nack.
    Nacked,
    /// With a drop.
    Dropped,
    /// With a snooze.
    Snoozed,
    /// Its daemon interrupted it.
    Interrupted,
    /// Its daemon was killed.
    Killed,
}

/// A run that begins.
pub(crate) struct Start<'a> {
    /// The job.
    pub(crate) id: &'a str,
    /// The daemon, by its link.
    pub(crate) daemon: u64,
    /// The number of its attempt.
    pub(crate) attempt: u32,
    /// The version of the job.
    pub(crate) version: u8,
}

/// Which run it is: its job, and its place among the runs of that job.
pub(crate) type RunId = (String, usize);

/// A run that has not ended.
struct Running {
    run: RunId,
    daemon: u64,
    leased_at: Moment,
    /// When another run of the job began, if one did.
    overlapped_at: Option<Moment>,
}

impl Run {
    /// True if it ended so.
    pub(crate) fn is(&self, end: End) -> bool {
        self.ended.is_some_and(|(_, found)| found == end)
    }
}

impl Account {
    /// How many runs ended so.
    pub(crate) fn count(&self, end: End) -> usize {
        self.runs.iter().filter(|run| run.is(end)).count()
    }

    /// True if Redis confirmed a push.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.pushes.contains(&PushResult::Confirmed)
    }

    /// True if nothing can push it again after this moment.
    pub(crate) fn is_pushed_by(&self, moment: Moment) -> bool {
        self.pushed_by <= moment && !self.pushes.contains(&PushResult::Unknown)
    }
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(witness: Witness) -> Self {
        Self { book: Arc::default(), witness }
    }

    /// What happened to leases.
    pub(crate) fn witness(&self) -> &Witness {
        &self.witness
    }

    /// Works with the content.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        work(&mut self.book.lock())
    }

    /// Works with the account of a job.
    pub(crate) fn account<T>(&self, id: &str, work: impl FnOnce(&mut Account) -> T) -> T {
        self.with(|book| work(book.accounts.entry(id.to_owned()).or_default()))
    }

    /// Records the result of a push.
    pub(crate) fn pushed(&self, id: &str, result: PushResult) {
        let now = self.witness.now();
        self.account(id, |account| {
            account.pushes.push(result);
            account.pushed_by = now;
        });
    }

    /// Records that a drain has ended. It must not end much later than ordered.
    pub(crate) fn drained(&self, timeout: Duration, took: Duration) {
        self.with(|book| book.drains.push(took));
        if took > timeout + AFTER_DRAIN_MAX {
            self.violated(format!("a drain of {timeout:?} took {took:?}"));
        }
    }

    /// Records that a run begins.
    pub(crate) fn begins(&self, start: Start<'_>) -> RunId {
        let Start { id, daemon, attempt, version } = start;
        let (now, leased_at) = (self.witness.now(), self.witness.starts(id, daemon));
        self.with(|book| {
            let account = book.accounts.entry(id.to_owned()).or_default();
            let failed = account.count(End::Nacked) + account.count(End::Dropped);
            if attempt as usize > 1 + failed {
                let text = format!("{id}: attempt {attempt} after {failed} failures");
                book.violations.push(text);
            }
            let run = (id.to_owned(), account.runs.len());
            let place = book.begun;
            book.begun += 1;
            account.runs.push(Run { daemon, leased_at, began: now, place, ended: None, version });
            for other in book.running.iter_mut().filter(|other| other.run.0 == id) {
                other.overlapped_at.get_or_insert(now);
            }
            book.running.push(Running { run: run.clone(), daemon, leased_at, overlapped_at: None });
            run
        })
    }

    /// Records the end of a run.
    pub(crate) fn ends(&self, run: &RunId, end: End) {
        self.end_where(end, |running| running.run == *run);
    }

    /// Records that a daemon was killed, and its runs with it.
    pub(crate) fn killed(&self, daemon: u64) {
        self.witness.killed(daemon);
        self.end_where(End::Killed, |running| running.daemon == daemon);
    }

    /// How many jobs run whose ids satisfy a condition. Only runs whose lease nothing can have broken count: the
    /// others may go on for a moment after another runner has the job's place.
    pub(crate) fn running(&self, mut is_meant: impl FnMut(&str) -> bool) -> usize {
        let now = self.witness.now();
        let is_sound =
            |running: &Running| !self.witness.is_hit(running.daemon, running.leased_at, now);
        self.with(|book| {
            let meant = book.running.iter().filter(|running| is_meant(&running.run.0));
            meant.filter(|running| is_sound(running)).count()
        })
    }

    /// Records what must not happen.
    pub(crate) fn violated(&self, text: String) {
        self.with(|book| book.violations.push(text));
    }

    fn end_where(&self, end: End, is_over: impl Fn(&Running) -> bool) {
        let now = self.witness.now();
        self.with(|book| {
            let over: Vec<Running> =
                book.running.extract_if(.., |running| is_over(running)).collect();
            for Running { run: (id, place), overlapped_at, leased_at, .. } in over {
                if let Some(overlap) = overlapped_at.map(|since| now.saturating_sub(since))
                    && overlap > OVERLAP_MAX
                    && !self.witness.is_clock_set(leased_at, now)
                {
                    book.violations.push(format!("{id}: two runs at once for {overlap:?}"));
                }
                if let Some(account) = book.accounts.get_mut(&id) {
                    account.runs[place].ended = Some((now, end));
                }
            }
        });
    }
}
