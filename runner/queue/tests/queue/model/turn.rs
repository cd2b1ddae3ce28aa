//! The parts of a runner's turn: promote, lease, settle, extend, reclaim.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use duebox_queue::{LeaseCall, Settled, Verdict};

use super::{LAST_DUE, LEAST_DUE, Model, in_order, is_bad, key};
use crate::snapshot::{Snapshot, Zset};
use crate::step::{CRASH_INFO, CRASHES_MAX, Claim, Given, Promoted, Reply};

const CRASH: u64 = 1_000_000;

impl Model {
    pub(super) fn promote(&mut self, n: usize, skip: usize) -> Promoted {
        let now = self.now();
        let bad = self.bury_bad_dues(n);
        let left = n.saturating_sub(bad).max(1);
        let mut due = in_order(&self.state.retry, |due| due <= now);
        due.truncate((left / 2).max(1));
        for id in &due {
            let score = self.state.retry.remove(id).unwrap();
            self.state.ready.insert(id.clone(), score);
        }
        let mut moved = due.len();
        let candidates = in_order(&self.state.pending, |due| due <= now);
        let mut skipped = 0;
        for id in candidates.into_iter().skip(skip).take(left.saturating_sub(moved).max(1)) {
            if is_bad(self.state.pending[&id]) {
                continue;
            }
            if self.state.unack.contains_key(&id) {
                skipped += 1;
                continue;
            }
            let due = self.state.pending.remove(&id).unwrap();
            self.state.retry.remove(&id);
            self.state.attempts.remove(&id);
            self.state.ready.insert(id, if due == 0.0 { now } else { due });
            moved += 1;
        }
        let next = self.next_due();
        self.state.set_wake(next);
        let next_due_in = next.map(|due| Duration::from_millis((due - now) as u64));
        let (moved, skipped, bad) = (moved as u64, skipped as u64, bad as u64);
        Promoted { moved, skipped, more: self.is_more_due(skip), next_due_in, bad }
    }

    /// True if a further call has something to move or to bury, apart from what was skipped before.
    fn is_more_due(&self, skip: usize) -> bool {
        let now = self.now();
        let Snapshot { pending, retry, unack, .. } = &self.state;
        let movable = |id: &Vec<u8>| !unack.contains_key(id);
        pending.values().any(|due| is_bad(*due))
            || retry.values().any(|due| *due <= now)
            || in_order(pending, |due| due <= now).iter().skip(skip).any(movable)
    }

    fn bury_bad_dues(&mut self, n: usize) -> usize {
        let ranges: [fn(f64) -> bool; 3] =
            [|due| due < 0.0, |due| due > 0.0 && due < LEAST_DUE, |due| due > LAST_DUE];
        let mut bad = 0;
        for range in ranges {
            let mut found = in_order(&self.state.pending, range);
            found.truncate(n.saturating_sub(bad).max(1));
            for id in &found {
                let due = self.state.pending[id];
                let reason = format!("the due time {} is no unix time in milliseconds", score(due));
                self.withdraw(id);
                self.bury(id, &format!(r#"{{"class":"bad_due","reason":"{reason}"}}"#));
                if !self.state.unack.contains_key(id) {
                    self.state.attempts.remove(id);
                }
            }
            bad += found.len();
        }
        bad
    }

    fn next_due(&self) -> Option<f64> {
        let now = self.now();
        let pending = self.state.pending.values().filter(|due| **due <= LAST_DUE);
        let waiting = pending.chain(self.state.retry.values()).filter(|due| **due > now);
        waiting.copied().reduce(f64::min)
    }

    pub(super) fn lease(&mut self, call: &LeaseCall) -> Reply {
        let now_us = self.now_us as f64;
        self.state.holders.retain(|_, token| *token > now_us);
        if let Some(token) = self.state.holders.get(call.call_id.as_bytes()) {
            return self.lease_again(*token as u64, call.lease);
        }
        if self.state.meta.contains_key(b"paused".as_slice()) {
            return Reply::Paused;
        }
        let mut ids = in_order(&self.state.ready, |_| true);
        ids.truncate(call.jobs);
        if ids.is_empty() {
            return Reply::Empty;
        }
        let token_us = self.now_us + call.lease.as_micros() as u64;
        let (mut given, mut withdrawn) = (Vec::new(), 0);
        for id in ids {
            let due = self.state.ready.remove(&id).unwrap();
            if self.state.pending.contains_key(&id) {
                self.state.attempts.remove(&id);
                withdrawn += 1;
                continue;
            }
            self.state.unack.insert(id.clone(), token_us as f64);
            given.push(self.give(&id, token_us, due as u64));
        }
        if !given.is_empty() {
            self.state.holders.insert(call.call_id.clone().into_bytes(), token_us as f64);
        }
        Reply::Leased(given, withdrawn)
    }

    fn lease_again(&mut self, token_us: u64, lease: Duration) -> Reply {
        let mut given = Vec::new();
        for id in in_order(&self.state.unack, |token| token == token_us as f64) {
            if self.state.pending.contains_key(&id) {
                self.state.unack.remove(&id);
                self.state.attempts.remove(&id);
            } else if self.state.jobs.contains_key(&id) {
                let due = token_us / 1_000 - lease.as_millis() as u64;
                given.push(self.give(&id, token_us, due));
            }
        }
        Reply::Leased(given, 0)
    }

    fn give(&self, id: &[u8], token_us: u64, due_ms: u64) -> Given {
        let attempts = self.attempts(id);
        let options = self.state.opts.get(id).map(|json| Options::from_json(json).unwrap());
        Given {
            claim: Claim { id: JobId::from_redis(id.to_vec()), token_us, due_ms },
            payload: Bytes::from(self.state.jobs[id].clone()),
            options: options.unwrap_or_default(),
            failures: attempts % CRASH,
            crashes: attempts / CRASH,
        }
    }

    pub(super) fn settle(&mut self, claim: &Claim, verdict: &Verdict) -> Settled {
        let id = key(&claim.id);
        if self.state.unack.get(&id) != Some(&(claim.token_us as f64)) {
            return Settled::Lost;
        }
        if *verdict == Verdict::Ack {
            self.end(&id);
            return Settled::Done;
        }
        if let Some(word) = self.end_without_verdict(&id) {
            return word;
        }
        match verdict {
            Verdict::Release { delay } => {
                self.state.unack.remove(&id);
                if delay.is_zero() {
                    self.state.ready.insert(id, claim.due_ms as f64);
                } else {
                    self.put_in_retry(id, *delay);
                }
                Settled::Released
            }
            Verdict::Nack { delay, max_attempts, .. }
                if self.attempts(&id) % CRASH + 1 < u64::from(*max_attempts) =>
            {
                self.fail(id, 1, *delay);
                Settled::Retry
            }
            Verdict::Nack { info, .. } | Verdict::Drop { info } => {
                self.bury(&id, info);
                self.end(&id);
                Settled::Dead
            }
            Verdict::Ack => Settled::Done,
        }
    }

    pub(super) fn reclaim(&mut self, delay: Duration) -> Vec<(JobId, Settled)> {
        let now_us = self.now_us as f64;
        let expired = in_order(&self.state.unack, |token| token <= now_us);
        if !expired.is_empty() {
            self.state.holders.retain(|_, token| *token > now_us);
        }
        let end = |id: Vec<u8>| {
            let job = JobId::from_redis(id.clone());
            if let Some(word) = self.end_without_verdict(&id) {
                return (job, word);
            }
            if self.attempts(&id) / CRASH + 1 < u64::from(CRASHES_MAX) {
                self.fail(id, CRASH, delay);
                return (job, Settled::Retry);
            }
            self.bury(&id, CRASH_INFO);
            self.end(&id);
            (job, Settled::Dead)
        };
        expired.into_iter().map(end).collect()
    }

    /// Ends a lease whose verdict no longer counts.
    fn end_without_verdict(&mut self, id: &[u8]) -> Option<Settled> {
        let word = if self.state.pending.contains_key(id) {
            Settled::Superseded
        } else if !self.state.jobs.contains_key(id) {
            Settled::Cancelled
        } else {
            return None;
        };
        self.end(id);
        Some(word)
    }

    /// Ends a lease and forgets its job. What a successor has is not the job's.
    fn end(&mut self, id: &[u8]) {
        self.state.unack.remove(id);
        self.state.attempts.remove(id);
        if !self.state.pending.contains_key(id) {
            self.state.jobs.remove(id);
            self.state.opts.remove(id);
        }
    }

    fn fail(&mut self, id: Vec<u8>, count: u64, delay: Duration) {
        let attempts = self.attempts(&id) + count;
        self.state.attempts.insert(id.clone(), attempts.to_string().into_bytes());
        self.state.unack.remove(&id);
        self.put_in_retry(id, delay);
    }

    fn put_in_retry(&mut self, id: Vec<u8>, delay: Duration) {
        let due = self.now() + delay.as_millis() as f64;
        self.state.retry.insert(id, due);
    }

    /// Moves payload and options to dead.
    fn bury(&mut self, id: &[u8], info: &str) {
        let payload = self.state.jobs.remove(id).unwrap();
        self.state.dead.insert(id.to_vec(), self.now());
        self.state.dead_jobs.insert(id.to_vec(), payload);
        self.state.dead_info.insert(id.to_vec(), info.as_bytes().to_vec());
        match self.state.opts.remove(id) {
            Some(options) => self.state.dead_opts.insert(id.to_vec(), options),
            None => self.state.dead_opts.remove(id),
        };
    }

    pub(super) fn extend(&mut self, before: &Zset, claim: &Claim, by: Duration) -> Option<u64> {
        let id = key(&claim.id);
        let later = claim.token_us + by.as_micros() as u64;
        let score = *before.get(&id)?;
        if score == claim.token_us as f64 {
            self.state.unack.insert(id, later as f64);
        } else if score != later as f64 {
            return None;
        }
        Some(later)
    }
}

/// A score as Redis writes it.
fn score(score: f64) -> String {
    if score.is_infinite() {
        return if score > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    format!("{score}")
}
