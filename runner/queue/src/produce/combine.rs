//! Pushes of one moment share a script call: a call of one job costs Redis as much as five more jobs in it. The first
//! push to a shard is sent at once; those that come while it is under way wait for the next call. Each caller waits
//! for its own push, so a line holds no more than its callers push at once.

use std::collections::{HashMap, VecDeque};

use duebox_job::Shard;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::push::{BATCH_BYTES, IfExists, NewJob, Stored};
use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;

/// A push of more jobs has calls of its own.
const JOBS_MAX: usize = 100;
/// A push of more bytes has calls of its own.
const BYTES_MAX: usize = BATCH_BYTES / 4;

/// Pushes that may share a call: of one shard, and with one answer to live ids.
type LineKey = (Shard, IfExists);

/// The lines in which a call is under way, with the calls that wait for it.
#[derive(Default)]
pub(crate) struct PushLines(Mutex<HashMap<LineKey, VecDeque<SharedCall>>>);

/// The jobs of several pushes.
#[derive(Default)]
struct SharedCall {
    jobs: Vec<NewJob>,
    bytes: usize,
    /// Who waits for it, and for how many jobs.
    callers: Vec<(usize, oneshot::Sender<Result<Stored, QueueError>>)>,
}

/// True if a push is small enough to share a call.
pub(super) fn may_share(jobs: usize, bytes: usize) -> bool {
    jobs <= JOBS_MAX && bytes <= BYTES_MAX
}

impl Queue {
    /// Pushes a few jobs of one shard, in a call of their own or in the next one of their line.
    pub(super) async fn push_together(
        &self,
        shard: &Shard,
        jobs: &[NewJob],
        if_exists: IfExists,
    ) -> Result<Stored, QueueError> {
        let line = (shard.clone(), if_exists);
        if let Some(stored) = self.push_lines.join(&line, jobs) {
            let stopped = || QueueError::NoReply("the program stops".to_owned());
            return stored.await.unwrap_or_else(|_| Err(stopped()));
        }
        let _first = FirstCall { queue: self, line, runtime: Handle::current() };
        self.push_once(shard, jobs, if_exists).await
    }
}

impl PushLines {
    /// Joins the next call of a line. `None` if no call is under way: then the caller sends its own, and the line is
    /// in use until [`Self::next`] finds nothing more.
    fn join(
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
    fn next(&self, line: &LineKey) -> Option<SharedCall> {
        let mut lines = self.0.lock();
        let next = lines.get_mut(line).and_then(VecDeque::pop_front);
        if next.is_none() {
            lines.remove(line);
        }
        next
    }
}

impl SharedCall {
    /// Gives each caller the part of its own jobs, or the error.
    fn reply(self, stored: Result<Stored, QueueError>) {
        let mut at = 0;
        for (jobs, caller) in self.callers {
            let own = stored.as_ref().map(|all| all.part(at..at + jobs)).map_err(Clone::clone);
            at += jobs;
            // A caller that is gone needs no reply.
            drop(caller.send(own));
        }
    }
}

/// The call that opened a line. When it ends, or its caller goes away, a task of its own sends what has joined the
/// line, so that nobody depends on another caller.
struct FirstCall<'q> {
    queue: &'q Queue,
    line: LineKey,
    runtime: Handle,
}

impl Drop for FirstCall<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.queue.push_lines.next(&self.line) {
            let open =
                OpenLine { queue: self.queue.clone(), line: self.line.clone(), is_over: false };
            self.runtime.spawn(open.send_all(call));
        }
    }
}

/// A line whose calls a task sends. If the task ends early, the waiting callers get an error.
struct OpenLine {
    queue: Queue,
    line: LineKey,
    /// The line ended, and another caller may have opened it again.
    is_over: bool,
}

impl OpenLine {
    async fn send_all(mut self, first: SharedCall) {
        let mut next = Some(first);
        while let Some(call) = next {
            let (shard, if_exists) = &self.line;
            let stored = self.queue.push_once(shard, &call.jobs, *if_exists).await;
            call.reply(stored);
            // The callers that were just answered often push again: they come along in the next call.
            tokio::task::yield_now().await;
            next = self.queue.push_lines.next(&self.line);
        }
        self.is_over = true;
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.push_lines.0.lock().remove(&self.line);
        }
    }
}
