//! What producers were told, and what handlers did: kept outside of Redis.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a run may go on after another runner has started the job: the resolution of the timers.
const OVERLAP_MAX: Duration = Duration::from_millis(5);

/// The ledger. Clones are the same ledger.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

/// The content of the ledger.
#[derive(Default)]
pub(crate) struct Book {
    /// The accounts by job.
    pub(crate) accounts: BTreeMap<String, Account>,
    /// What must not happen and did.
    pub(crate) violations: Vec<String>,
    /// Runs may overlap: the clock of Redis is set, which ends leases early.
    pub(crate) may_overlap: bool,
    running: Vec<Running>,
    runs: u64,
}

/// What is known of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// The results of its pushes.
    pub(crate) pushes: Vec<PushResult>,
    /// The ends of its runs.
    pub(crate) ends: Vec<End>,
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

/// A run that has not ended.
struct Running {
    run: u64,
    id: String,
    daemon: u64,
    /// When another run of the job began, if one did.
    overlapped_at: Option<Instant>,
}

impl Account {
    /// How many runs ended so.
    pub(crate) fn count(&self, end: End) -> usize {
        self.ends.iter().filter(|found| **found == end).count()
    }

    /// True if Redis confirmed a push.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.pushes.contains(&PushResult::Confirmed)
    }
}

impl Ledger {
    /// Works with the content.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Book) -> T) -> T {
        work(&mut self.0.lock())
    }

    /// Records the result of a push.
    pub(crate) fn pushed(&self, id: &str, result: PushResult) {
        self.with(|book| book.accounts.entry(id.to_owned()).or_default().pushes.push(result));
    }

    /// Records that a run begins; returns its number.
    pub(crate) fn begins(&self, id: &str, daemon: u64, attempt: u32) -> u64 {
        self.with(|book| {
            let account = book.accounts.entry(id.to_owned()).or_default();
            let failed = account.count(End::Nacked) + account.count(End::Dropped);
            if attempt as usize > 1 + failed {
                let text = format!("{id}: attempt {attempt} after {failed} failures");
                book.violations.push(text);
            }
            let now = Instant::now();
            for other in book.running.iter_mut().filter(|other| other.id == id) {
                other.overlapped_at.get_or_insert(now);
            }
            book.runs += 1;
            let id = id.to_owned();
            book.running.push(Running { run: book.runs, id, daemon, overlapped_at: None });
            book.runs
        })
    }

    /// Records the end of a run.
    pub(crate) fn ends(&self, run: u64, end: End) {
        self.with(|book| book.end_where(end, |running| running.run == run));
    }

    /// Records that a daemon was killed, and its runs with it.
    pub(crate) fn killed(&self, daemon: u64) {
        self.with(|book| book.end_where(End::Killed, |running| running.daemon == daemon));
    }

    /// How many jobs run whose ids satisfy a condition.
    pub(crate) fn running(&self, mut is_meant: impl FnMut(&str) -> bool) -> usize {
        self.with(|book| book.running.iter().filter(|running| is_meant(&running.id)).count())
    }

    /// Records what must not happen.
    pub(crate) fn violated(&self, text: String) {
        self.with(|book| book.violations.push(text));
    }
}

impl Book {
    fn end_where(&mut self, end: End, is_over: impl Fn(&Running) -> bool) {
        let (over, rest) =
            std::mem::take(&mut self.running).into_iter().partition(|running| is_over(running));
        self.running = rest;
        let over: Vec<Running> = over;
        for Running { id, overlapped_at, .. } in over {
            if let Some(since) = overlapped_at
                && since.elapsed() > OVERLAP_MAX
                && !self.may_overlap
            {
                let text = format!("{id}: two runs at once for {:?}", since.elapsed());
                self.violations.push(text);
            }
            self.accounts.entry(id).or_default().ends.push(end);
        }
    }
}
