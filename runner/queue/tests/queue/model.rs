//! The queue as plain Rust: each verb as the contract tells it, one id after the other.
//!
//! It is the state of a topic in memory, and nothing of how the scripts reach it. Redis' clock is
//! passed in.

use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::{Cancelled, Due, IfExists, NewJob, Pushed, Requeued, Rescheduled, Settled};

use crate::snapshot::{Snapshot, Zset};
use crate::step::{Claim, Reply, Step};

mod turn;

const LEAST_DUE: f64 = 1e11;
const LAST_DUE: f64 = 1e14;

#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) state: Snapshot,
    now_us: u64,
}

impl Model {
    /// Does a step at a time of Redis' clock.
    pub(crate) fn apply(&mut self, step: &Step, now_us: u64) -> Reply {
        self.now_us = now_us;
        match step {
            Step::Push(mode, jobs) => Reply::Pushed(self.push(*mode, jobs)),
            Step::Plain { id, payload, due } => {
                self.state.jobs.insert(key(id), payload.to_vec());
                self.state.pending.insert(key(id), *due);
                Reply::Nothing
            }
            Step::Promote { n, skip } => Reply::Promoted(self.promote(*n, *skip as usize)),
            Step::Lease(call) => self.lease(call),
            Step::Settle(claims) => {
                let words = claims.iter().map(|(claim, verdict)| self.settle(claim, verdict));
                let words: Vec<Settled> = words.collect();
                if words.iter().any(|word| *word != Settled::Lost) && self.is_empty() {
                    self.state.holders.clear();
                }
                Reply::Settled(words)
            }
            Step::Extend(claims) => {
                let before = self.state.unack.clone();
                let extend = |(claim, by): &(Claim, Duration)| self.extend(&before, claim, *by);
                Reply::Extended(claims.iter().map(extend).collect())
            }
            Step::Reclaim { delay } => Reply::Reclaimed(self.reclaim(*delay)),
            Step::Cancel(ids) => Reply::Cancelled(ids.iter().map(|id| self.cancel(id)).collect()),
            Step::Reschedule(id, due) => Reply::Rescheduled(self.reschedule(id, *due)),
            Step::Requeue(ids) => Reply::Requeued(ids.iter().map(|id| self.requeue(id)).collect()),
            Step::PruneOlder(age) => {
                let before = self.now() - age.as_millis() as f64;
                self.prune(in_order(&self.state.dead, |died| died < before))
            }
            Step::PruneAbove(kept) => {
                let excess = self.state.dead.len().saturating_sub(*kept as usize);
                let mut oldest = in_order(&self.state.dead, |_| true);
                oldest.truncate(excess);
                self.prune(oldest)
            }
            Step::Prune(ids) => self.prune(ids.iter().map(key).collect()),
            Step::Pause(true) => {
                self.state.meta.insert(b"paused".to_vec(), b"1".to_vec());
                Reply::Nothing
            }
            Step::Pause(false) => {
                self.state.meta.remove(b"paused".as_slice());
                Reply::Nothing
            }
            Step::Advance(by) => {
                self.state.put_back(*by);
                Reply::Nothing
            }
        }
    }

    /// True if a lease call is to be answered as before, should it be repeated at this time.
    pub(crate) fn holds(&self, call_id: &str, now_us: u64) -> bool {
        self.state.holders.get(call_id.as_bytes()).is_some_and(|token| *token > now_us as f64)
    }

    fn now(&self) -> f64 {
        (self.now_us / 1_000) as f64
    }

    fn is_empty(&self) -> bool {
        let Snapshot { pending, ready, unack, retry, .. } = &self.state;
        pending.is_empty() && ready.is_empty() && unack.is_empty() && retry.is_empty()
    }

    fn waits(&self, id: &[u8]) -> bool {
        let Snapshot { pending, ready, retry, .. } = &self.state;
        pending.contains_key(id) || ready.contains_key(id) || retry.contains_key(id)
    }

    fn withdraw(&mut self, id: &[u8]) {
        self.state.pending.remove(id);
        self.state.ready.remove(id);
        self.state.retry.remove(id);
    }

    fn attempts(&self, id: &[u8]) -> u64 {
        let text = self.state.attempts.get(id).map(|t| std::str::from_utf8(t).unwrap());
        text.map_or(0, |text| text.parse().unwrap())
    }

    fn wake(&mut self, due: f64) {
        if self.state.wake().is_none_or(|wake| due < wake) {
            self.state.set_wake(Some(due));
        }
    }

    fn due(&self, due: Due) -> Option<f64> {
        let due = match due {
            Due::Now => self.now(),
            Due::In(delay) => self.now() + delay.as_millis() as f64,
            Due::At(ms) => ms as f64,
        };
        (LEAST_DUE..=LAST_DUE).contains(&due).then_some(due)
    }

    fn push(&mut self, mode: IfExists, jobs: &[NewJob]) -> Vec<Pushed> {
        let mut written = Zset::new();
        let words = jobs.iter().map(|job| self.push_one(mode, job, &mut written)).collect();
        let now = self.now();
        // Nobody need wake for a due successor: it waits for the end of a lease.
        let wakes = |(id, due): (Vec<u8>, f64)| {
            (due > now || !self.state.unack.contains_key(&id)).then_some(due)
        };
        if let Some(earliest) = written.into_iter().filter_map(wakes).reduce(f64::min) {
            self.wake(earliest);
        }
        words
    }

    fn push_one(&mut self, mode: IfExists, job: &NewJob, written: &mut Zset) -> Pushed {
        let id = key(&job.id);
        let leased = self.state.unack.contains_key(&id);
        let live = self.waits(&id) || (leased && self.state.jobs.contains_key(&id));
        let Some(due) = self.due(job.due) else { return Pushed::BadDue };
        match mode {
            IfExists::Reject if live => return Pushed::Exists,
            IfExists::Keep if live => return Pushed::Kept,
            _ => {}
        }
        self.withdraw(&id);
        if !leased {
            self.state.attempts.remove(&id);
        }
        self.state.jobs.insert(id.clone(), job.payload.to_vec());
        match job.options.to_json() {
            none if none.is_empty() => self.state.opts.remove(&id),
            json => self.state.opts.insert(id.clone(), json.into_bytes()),
        };
        let ready = due <= self.now() && !leased;
        let stage = if ready { &mut self.state.ready } else { &mut self.state.pending };
        stage.insert(id.clone(), due);
        written.insert(id, due);
        match (leased, live) {
            (true, _) => Pushed::Successor,
            (false, true) => Pushed::Replaced,
            (false, false) => Pushed::Pushed,
        }
    }

    fn cancel(&mut self, id: &JobId) -> Cancelled {
        let id = key(id);
        let known = self.waits(&id) || self.state.jobs.contains_key(&id);
        self.withdraw(&id);
        self.state.jobs.remove(&id);
        self.state.opts.remove(&id);
        if self.state.unack.contains_key(&id) {
            return Cancelled::Leased;
        }
        self.state.attempts.remove(&id);
        if known { Cancelled::Cancelled } else { Cancelled::None }
    }

    fn reschedule(&mut self, id: &JobId, due: Due) -> Rescheduled {
        let Some(due) = self.due(due) else { return Rescheduled::BadDue };
        let id = key(id);
        let leased = self.state.unack.contains_key(&id);
        let newer = self.state.pending.contains_key(&id);
        if !newer && leased {
            return Rescheduled::Leased;
        }
        if !newer && !self.waits(&id) {
            return Rescheduled::None;
        }
        if newer && !leased {
            self.state.attempts.remove(&id);
        }
        let is_due = due <= self.now();
        let stage = match (is_due, leased, self.state.attempts.contains_key(&id)) {
            (_, true, _) | (false, false, false) => Rescheduled::Pending,
            (true, false, _) => Rescheduled::Ready,
            (false, false, true) => Rescheduled::Retry,
        };
        self.withdraw(&id);
        let scores = match stage {
            Rescheduled::Ready => &mut self.state.ready,
            Rescheduled::Retry => &mut self.state.retry,
            _ => &mut self.state.pending,
        };
        scores.insert(id, due);
        if !(leased && is_due) {
            self.wake(due);
        }
        stage
    }

    fn requeue(&mut self, id: &JobId) -> Requeued {
        let id = key(id);
        if !self.state.dead.contains_key(&id) {
            return Requeued::None;
        }
        if self.waits(&id) || self.state.unack.contains_key(&id) {
            return Requeued::Exists;
        }
        let now = self.now();
        self.state.dead.remove(&id);
        self.state.dead_info.remove(&id);
        let payload = self.state.dead_jobs.remove(&id).unwrap();
        self.state.jobs.insert(id.clone(), payload);
        if let Some(options) = self.state.dead_opts.remove(&id) {
            self.state.opts.insert(id.clone(), options);
        }
        self.state.ready.insert(id, now);
        self.wake(now);
        Requeued::Ok
    }

    fn prune(&mut self, ids: Vec<Vec<u8>>) -> Reply {
        let before = self.state.dead.len();
        for id in ids {
            self.state.dead.remove(&id);
            self.state.dead_jobs.remove(&id);
            self.state.dead_opts.remove(&id);
            self.state.dead_info.remove(&id);
        }
        Reply::Pruned((before - self.state.dead.len()) as u64)
    }
}

fn key(id: &JobId) -> Vec<u8> {
    id.as_bytes().to_vec()
}

/// The ids whose score is wanted, lowest score first, equal ones in the order of their bytes.
fn in_order(scores: &Zset, wanted: impl Fn(f64) -> bool) -> Vec<Vec<u8>> {
    let mut found: Vec<_> = scores.iter().filter(|(_, score)| wanted(**score)).collect();
    found.sort_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
    found.into_iter().map(|(id, _)| id.clone()).collect()
}

pub(crate) fn is_bad(due: f64) -> bool {
    due < 0.0 || (due > 0.0 && due < LEAST_DUE) || due > LAST_DUE
}
