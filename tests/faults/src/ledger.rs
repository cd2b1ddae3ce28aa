//! What happened in a row, recorded outside Redis: each push with its answer, each run that a handler or a
//! consumer reported, and when runners and Redis were broken.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};

use crate::plan::{Plan, Verdict, key_of};

/// The answer to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was carried out.
    Ok,
    /// It was refused, or never sent.
    Failed,
    /// The answer is missing.
    Unknown,
}

/// A job's name: topic and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) topic: String,
    pub(crate) id: String,
}

/// One push.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Push {
    pub(crate) answer: Answer,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
    /// Of one without an answer: whether a daemon found the job when it was asked, and when it said so.
    pub(crate) found: Option<(bool, Instant)>,
}

/// A time in which Redis lost data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    pub(crate) from: Instant,
    /// When the fault happened that lost it.
    pub(crate) at: Instant,
    pub(crate) to: Instant,
}

/// One run of a job.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) name: Name,
    pub(crate) attempt: u32,
    /// The incarnation of the runner, such as `r2-5`, or a consumer.
    pub(crate) by: String,
    /// The count of runs in the topic's store, which this run raised.
    pub(crate) count: Option<i64>,
    pub(crate) began: Instant,
    /// When the handler was told its verdict. Without it the run was broken off.
    pub(crate) answered: Option<Instant>,
    /// The verdict was sent, and it is unknown whether it arrived.
    pub(crate) is_uncertain: bool,
    pub(crate) is_open: bool,
    pub(crate) verdict: Verdict,
}

/// A time in which a runner, or Redis for all of them, could not keep leases or data.
#[derive(Debug, Clone)]
pub(crate) struct Break {
    /// The incarnation; empty for Redis.
    pub(crate) by: String,
    pub(crate) from: Instant,
    pub(crate) to: Option<Instant>,
}

/// The records.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) pushes: HashMap<Name, Push>,
    pub(crate) runs: Vec<Run>,
    /// How often each job was logged as done.
    pub(crate) done: HashMap<Name, u32>,
    pub(crate) breaks: Vec<Break>,
    /// When a fault was over and work could go on.
    pub(crate) ends: Vec<Instant>,
    /// Times in which Redis lost data: pushes and verdicts in them may be gone.
    pub(crate) losses: Vec<Loss>,
    /// Runs of two jobs of one key at the same time, by their places in `runs`; the second one began later.
    pub(crate) overlaps: Vec<(usize, usize)>,
}

/// The records of a row, shared by its tasks.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Books>);

impl Name {
    pub(crate) fn new(topic: &str, id: &str) -> Self {
        Self { topic: topic.to_owned(), id: id.to_owned() }
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::of(&self.id)
    }
}

impl Ledger {
    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock()
    }

    /// Records a push that was answered now.
    pub(crate) fn pushed(&self, name: Name, answer: Answer, sent: Instant) {
        let answered = Instant::now();
        self.books().pushes.insert(name, Push { answer, sent, answered, found: None });
    }

    /// Records whether a daemon has found the job of a push without an answer. A job that it has not found may have
    /// run until now.
    pub(crate) fn found(&self, name: &Name, is_found: bool) {
        if let Some(push) = self.books().pushes.get_mut(name) {
            push.found = Some((is_found, Instant::now()));
        }
    }

    /// Records that a run begins, and returns its number.
    pub(crate) fn begins(&self, name: Name, attempt: u32, by: &str, count: Option<i64>) -> usize {
        let verdict = name.plan().verdict(attempt);
        let mut books = self.books();
        if let Some(key) = key_of(&name.topic, &name.id) {
            let same = |run: &Run| {
                run.is_open
                    && run.name != name
                    && key_of(&run.name.topic, &run.name.id) == Some(key)
            };
            // Runs are short, so an open one is among the last.
            let place = books.runs.len();
            let mut recent = (place.saturating_sub(2_000)..place).rev();
            let other = recent.find(|other| same(&books.runs[*other]));
            books.overlaps.extend(other.map(|other| (other, place)));
        }
        let (by, began) = (by.to_owned(), Instant::now());
        let (answered, is_uncertain, is_open) = (None, false, true);
        books.runs.push(Run {
            name,
            attempt,
            by,
            count,
            began,
            answered,
            is_uncertain,
            is_open,
            verdict,
        });
        books.runs.len() - 1
    }

    /// Records that the run was told its verdict.
    pub(crate) fn answers(&self, run: usize) {
        if let Some(run) = self.books().runs.get_mut(run) {
            run.answered = Some(Instant::now());
            run.is_open = false;
        }
    }

    /// Records that the run is over, with a verdict or without.
    pub(crate) fn closes(&self, run: usize) {
        if let Some(run) = self.books().runs.get_mut(run) {
            run.is_open = false;
        }
    }

    /// Records that the run's verdict was sent without an answer.
    pub(crate) fn is_uncertain(&self, run: usize) {
        if let Some(run) = self.books().runs.get_mut(run) {
            run.is_uncertain = true;
            run.is_open = false;
        }
    }

    /// Records that this incarnation was broken from `from` to now, or for good.
    pub(crate) fn broke(&self, by: &str, from: Instant, to: Option<Instant>) {
        self.books().breaks.push(Break { by: by.to_owned(), from, to });
    }

    /// Records that no runner could keep its leases meanwhile.
    pub(crate) fn leases_lapsed(&self, from: Instant, to: Instant) {
        self.broke("", from, Some(to));
    }

    /// Records that a fault at `at` lost what Redis was told from `from` to now.
    pub(crate) fn data_lost(&self, from: Instant, at: Instant) {
        let to = Instant::now();
        self.books().losses.push(Loss { from, at, to });
        self.leases_lapsed(from, to);
    }

    /// Records that a fault is over.
    pub(crate) fn fault_ended(&self) {
        self.books().ends.push(Instant::now());
    }
}
