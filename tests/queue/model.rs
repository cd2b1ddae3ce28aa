//! The queue as plain Rust: each verb as the contract tells it, one id after the other.
//!
//! It is the state of a topic in memory, and nothing of how the scripts reach it. Redis' clock is
//! passed in.

use duebox_job::JobId;
use duebox_queue::{Cancelled, Due, IfExists, NewJob, Pushed, Requeued, Rescheduled, Settled};

use crate::snapshot::{Snapshot, Zset};
use crate::step::{Claim, Reply, Step};

mod flow;
mod lease;
mod line;
mod order;
mod turn;

use order::{Stage, Tails};

const LEAST_DUE: f64 = 1e11;
const LAST_DUE: f64 = 1e14;

#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) state: Snapshot,
    now_us: u64,
    /// Jobs that lines let through in the step.
    through: usize,
    /// Jobs that give back their turns at the end of the step.
    leaving: Vec<Vec<u8>>,
    /// A job was added to dead, or to done.
    is_dead_longer: bool,
    is_done_longer: bool,
}

impl Model {
    /// Does a step at a time of Redis' clock.
    pub(crate) fn apply(&mut self, step: &Step, now_us: u64) -> Reply {
        self.now_us = now_us;
        self.through = 0;
        let reply = self.reply(step);
        self.keep_newest();
        reply
    }

    fn reply(&mut self, step: &Step) -> Reply {
        match step {
            Step::Push(mode, jobs) => Reply::Pushed(self.push(*mode, jobs)),
            Step::Plain { id, payload, due } => {
                self.state.jobs.insert(key(id), payload.to_vec());
                self.state.pending.insert(key(id), *due);
                Reply::Nothing
            }
            Step::Cancel(ids) => {
                let words = ids.iter().map(|id| self.cancel(id)).collect();
                // None of those that are cancelled together is let through by another.
                let idle = ids.iter().map(key).filter(|id| !self.is_leased(id));
                idle.collect::<Vec<_>>().iter().for_each(|id| self.leave_turn(id));
                self.wake_if_through();
                Reply::Cancelled(words)
            }
            Step::Reschedule(id, due) => Reply::Rescheduled(self.reschedule(id, *due)),
            Step::Requeue(ids) => Reply::Requeued(ids.iter().map(|id| self.requeue(id)).collect()),
            Step::PruneOlder(age) => {
                let before = self.now() - age.as_millis() as f64;
                self.prune(in_order(&self.state.dead, |died| died < before))
            }
            Step::PruneAbove(kept) => self.prune_dead_above(*kept as usize),
            Step::Prune(ids) => self.prune(ids.iter().map(key).collect()),
            Step::PruneDone(kept) => self.prune_done(*kept as usize),
            Step::Pause(paused) => self.pause(*paused),
            Step::Configure(rules) => self.configure(rules),
            Step::Tick(tick) => Reply::Ticked(self.tick(tick)),
            Step::Sweep => self.sweep(),
            Step::Advance(by) => {
                self.state.put_back(*by);
                Reply::Nothing
            }
            _ => self.apply_to_turn(step),
        }
    }

    fn apply_to_turn(&mut self, step: &Step) -> Reply {
        match step {
            Step::Promote { n, skip, discard } => {
                Reply::Promoted(self.promote(*n, *skip as usize, *discard))
            }
            Step::Lease(call) => self.lease(call),
            Step::Settle(claims) => {
                let words = claims.iter().map(|(claim, verdict)| self.settle(claim, verdict));
                let words: Vec<Settled> = words.collect();
                self.let_leave();
                if words.iter().any(|word| *word != Settled::Lost) {
                    self.leases_ended();
                    if self.is_empty() {
                        self.state.holders.clear();
                    }
                }
                Reply::Settled(words)
            }
            Step::Extend(claims) => {
                let before = self.state.unack.clone();
                let extend = |(claim, by): &(Claim, _)| self.extend(&before, claim, *by);
                Reply::Extended(claims.iter().map(extend).collect())
            }
            Step::Reclaim { delay, discard } => {
                let ended = self.reclaim(*delay, *discard);
                self.let_leave();
                if !ended.is_empty() {
                    self.leases_ended();
                }
                Reply::Reclaimed(ended)
            }
            _ => panic!("{step:?} is not a step of one topic"),
        }
    }

    /// True if a lease call is to be answered as before, should it be repeated at this time.
    pub(crate) fn holds(&self, call_id: &str, now_us: u64) -> bool {
        self.state.holders.get(call_id.as_bytes()).is_some_and(|token| *token > now_us as f64)
    }

    fn now(&self) -> f64 {
        (self.now_us / 1_000) as f64
    }

    /// A rule of the topic; 0 where it is off.
    pub(crate) fn rule(&self, name: &str) -> u64 {
        self.state.number(name).map_or(0, |value| value as u64)
    }

    fn is_relaxed(&self) -> bool {
        self.state.meta.contains_key(b"order".as_slice())
    }

    fn is_empty(&self) -> bool {
        let Snapshot { pending, ready, unack, retry, .. } = &self.state;
        pending.is_empty() && ready.is_empty() && unack.is_empty() && retry.is_empty()
    }

    fn waits(&self, id: &[u8]) -> bool {
        let Snapshot { pending, ready, retry, blocked_at, .. } = &self.state;
        pending.contains_key(id)
            || ready.contains_key(id)
            || retry.contains_key(id)
            || blocked_at.contains_key(id)
    }

    fn is_live(&self, id: &[u8]) -> bool {
        self.waits(id) || (self.is_leased(id) && self.state.jobs.contains_key(id))
    }

    fn is_leased(&self, id: &[u8]) -> bool {
        self.state.unack.contains_key(id)
    }

    fn is_held(&self, id: &[u8]) -> bool {
        self.state.unique.get(id).is_some_and(|until| *until > self.now())
    }

    /// Takes a job out of every stage. Its turn stays.
    fn withdraw(&mut self, id: &[u8]) {
        self.state.pending.remove(id);
        self.state.ready.remove(id);
        self.state.retry.remove(id);
        self.leave_line(id);
    }

    /// Attempts of every kind, and what the last one failed of.
    fn forget_failures(&mut self, id: &[u8]) {
        self.state.attempts.remove(id);
        self.state.errors.remove(id);
    }

    fn wake(&mut self, due: f64) {
        if self.state.wake().is_none_or(|wake| due < wake) {
            self.state.set_number("wake", Some(due));
        }
    }

    fn wake_if_through(&mut self) {
        if self.through > 0 {
            self.wake(self.now());
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

    /// Says what becomes of each job, takes back all that are replaced, and then puts the new ones
    /// into their places.
    fn push(&mut self, mode: IfExists, jobs: &[NewJob]) -> Vec<Pushed> {
        let mut written: Vec<(Vec<u8>, f64, &NewJob)> = Vec::new();
        let most = self.rule("max_pending") as usize;
        let Snapshot { pending, ready, blocked, .. } = &self.state;
        let waiting = pending.len() + ready.len() + blocked.len();
        let mut room = if most > 0 { most.saturating_sub(waiting) } else { usize::MAX };
        let mut words = Vec::new();
        for job in jobs {
            let id = key(&job.id);
            let again = written.iter().position(|(known, ..)| *known == id);
            let word = self.word_of_push(mode, job, again.is_some(), room);
            if let (Pushed::Pushed | Pushed::Replaced | Pushed::Successor, Some(due)) =
                (word, self.due(job.due))
            {
                match again {
                    Some(at) => written[at] = (id, due, job),
                    None => {
                        room -= usize::from(!self.waits(&id));
                        written.push((id, due, job));
                    }
                }
            }
            words.push(word);
        }
        self.write(&written);
        words
    }

    fn word_of_push(&self, mode: IfExists, job: &NewJob, again: bool, room: usize) -> Pushed {
        let id = key(&job.id);
        let live = again || self.is_live(&id);
        let held = !live && self.is_held(&id);
        let adds = !again && !self.waits(&id);
        match mode {
            _ if self.due(job.due).is_none() => Pushed::BadDue,
            IfExists::Keep if live || held => Pushed::Kept,
            IfExists::Reject if live => Pushed::Exists,
            _ if held => Pushed::Held,
            _ if adds && room == 0 => Pushed::Full,
            _ if self.is_leased(&id) => Pushed::Successor,
            _ if live => Pushed::Replaced,
            _ => Pushed::Pushed,
        }
    }

    fn write(&mut self, written: &[(Vec<u8>, f64, &NewJob)]) {
        let before = self.state.clone();
        let mut left = Vec::new();
        for (id, _, job) in written {
            let staged = self.waits(id);
            self.withdraw(id);
            if !self.is_leased(id) {
                self.forget_failures(id);
                left.extend(staged.then_some(id));
            }
            self.state.jobs.insert(id.clone(), job.payload.to_vec());
            match job.options.to_json() {
                none if none.is_empty() => self.state.opts.remove(id),
                json => self.state.opts.insert(id.clone(), json.into_bytes()),
            };
        }
        let has_options = |job: &NewJob| !job.options.to_json().is_empty();
        let is_keyed = |model: &Self, id: &[u8], due: f64, job: &NewJob| {
            let is_ready = due <= model.now() && !model.is_leased(id);
            is_ready && model.rule("per_key") > 0 && has_options(job)
        };
        let mut tails = Tails::of(&before);
        for (id, due, job) in written {
            if is_keyed(self, id, *due, job) {
                continue;
            }
            if *due <= self.now() && !self.is_leased(id) {
                let score = tails.behind(Stage::Ready, self.ranked(id, *due), id);
                self.state.ready.insert(id.clone(), score);
            } else {
                let score = tails.behind(Stage::Pending, *due, id);
                self.state.pending.insert(id.clone(), score);
            }
        }
        left.into_iter().for_each(|id| self.leave_turn(id));
        for (id, due, job) in written {
            let (is_due, leased) = (*due <= self.now(), self.is_leased(id));
            if is_keyed(self, id, *due, job) {
                self.admit(id, *due, None);
            }
            // No runner need wake for a due successor: it waits for the end of a lease.
            if !(is_due && leased) {
                self.wake(*due);
            }
        }
        self.wake_if_through();
    }

    fn cancel(&mut self, id: &JobId) -> Cancelled {
        let id = key(id);
        let known = self.waits(&id) || self.state.jobs.contains_key(&id);
        self.withdraw(&id);
        self.state.jobs.remove(&id);
        self.state.opts.remove(&id);
        if self.is_leased(&id) {
            return Cancelled::Leased;
        }
        self.forget_failures(&id);
        if known { Cancelled::Cancelled } else { Cancelled::None }
    }

    fn reschedule(&mut self, id: &JobId, due: Due) -> Rescheduled {
        let Some(due) = self.due(due) else { return Rescheduled::BadDue };
        let id = key(id);
        let (leased, newer) = (self.is_leased(&id), self.state.pending.contains_key(&id));
        if !newer && leased {
            return Rescheduled::Leased;
        }
        if !self.waits(&id) {
            return Rescheduled::None;
        }
        self.withdraw(&id);
        if newer && !leased {
            self.forget_failures(&id);
        }
        let is_due = due <= self.now();
        let stage = match (is_due, leased, self.state.attempts.contains_key(&id)) {
            (_, true, _) => {
                self.put_in_pending(&id, due);
                Rescheduled::Pending
            }
            (true, false, _) => self.admit(&id, due, None),
            (false, false, tried) => {
                if tried {
                    self.state.retry.insert(id.clone(), due);
                } else {
                    self.put_in_pending(&id, due);
                }
                if !tried || self.is_relaxed() {
                    self.leave_turn(&id);
                }
                if tried { Rescheduled::Retry } else { Rescheduled::Pending }
            }
        };
        if !(is_due && leased) && stage != Rescheduled::Blocked {
            self.wake(due.max(self.now()));
        }
        self.wake_if_through();
        stage
    }

    fn requeue(&mut self, id: &JobId) -> Requeued {
        let id = key(id);
        if !self.state.dead.contains_key(&id) {
            return Requeued::None;
        }
        if self.waits(&id) || self.is_leased(&id) {
            return Requeued::Exists;
        }
        self.state.dead.remove(&id);
        self.state.dead_info.remove(&id);
        let payload = self.state.dead_jobs.remove(&id).unwrap();
        self.state.jobs.insert(id.clone(), payload);
        if let Some(options) = self.state.dead_opts.remove(&id) {
            self.state.opts.insert(id.clone(), options);
        }
        self.place(&id, self.now());
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
