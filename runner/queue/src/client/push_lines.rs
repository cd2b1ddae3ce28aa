//! The pushes of a [`Queue`](crate::Queue) that wait for the next script call of their line. `produce/combine.rs` sends
//! the calls.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use duebox_job::Shard;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::QueueError;
use crate::topic::new_job::{IfExists, NewJob, Pushed};
use crate::wire::constants::{BATCH_BYTES, BATCH_MAX};

/// Pushes that may share a call: of one shard, and with one answer to live ids.
pub(crate) type LineKey = (Shard, IfExists);

/// The lines in which a call is under way, with the calls that wait for it.
#[derive(Default)]
pub(crate) struct PushLines(Mutex<HashMap<LineKey, VecDeque<SharedCall>>>);

/// The jobs of several pushes.
#[derive(Default)]
pub(crate) struct SharedCall {
    pub(crate) jobs: Vec<NewJob>,
    bytes: usize,
    /// Who waits for it, and for how many jobs.
    callers: Vec<(usize, oneshot::Sender<Result<Stored, QueueError>>)>,
}

/// What one script call did.
pub(crate) struct Stored {
    /// One for each job.
    pub(crate) words: Vec<Pushed>,
    /// What the call lacks of the copies that were waited for.
    pub(crate) missing: Option<String>,
}

impl Stored {
    /// The same for some of the jobs.
    fn part(&self, jobs: Range<usize>) -> Self {
        let words = self.words.get(jobs).unwrap_or_default().to_vec();
        Self { words, missing: self.missing.clone() }
    }

    /// The words, if what they say has its copies.
    pub(crate) fn confirmed(self) -> Result<Vec<Pushed>, QueueError> {
        match self.missing {
            Some(missing) if self.words.iter().any(|word| word.is_there()) => {
                Err(QueueError::Unconfirmed(missing))
            }
            _ => Ok(self.words),
        }
    }
}

impl PushLines {
    /// Joins the next call of a line. `None` if no call is under way: then the caller sends its own, and the line is
    /// in use until [`Self::next`] finds nothing more.
    pub(crate) fn join(
        &self,
        line: &LineKey,
        jobs: &[NewJob],
    ) -> Option<oneshot::Receiver<Result<Stored, QueueError>>> {
        let mut lines = self.0.lock();
        let Some(calls) = lines.get_mut(line) else {
            lines.insert(line.clone(), VecDeque::new());
            return None;
        };
        let bytes: usize = jobs.iter().map(|job| job.payload.len()).sum();
        let fits = |call: &SharedCall| {
            call.jobs.len() + jobs.len() <= BATCH_MAX && call.bytes + bytes <= BATCH_BYTES
        };
        if !calls.back().is_some_and(fits) {
            calls.push_back(SharedCall::default());
        }
        let (sender, stored) = oneshot::channel();
        if let Some(call) = calls.back_mut() {
            call.jobs.extend_from_slice(jobs);
            call.bytes += bytes;
            call.callers.push((jobs.len(), sender));
        }
        Some(stored)
    }

    /// The next call of a line; without one the line ends.
    pub(crate) fn next(&self, line: &LineKey) -> Option<SharedCall> {
        let mut lines = self.0.lock();
        let next = lines.get_mut(line).and_then(VecDeque::pop_front);
        if next.is_none() {
            lines.remove(line);
        }
        next
    }

    /// Ends a line. The callers that still wait in it get an error.
    pub(crate) fn end(&self, line: &LineKey) {
        self.0.lock().remove(line);
    }
}

impl SharedCall {
    /// Gives each caller the part of its own jobs, or the error.
    pub(crate) fn reply(self, stored: Result<Stored, QueueError>) {
        let mut at = 0;
        for (jobs, caller) in self.callers {
            let own = stored.as_ref().map(|all| all.part(at..at + jobs)).map_err(Clone::clone);
            at += jobs;
            // A caller that is gone needs no reply.
            drop(caller.send(own));
        }
    }
}
