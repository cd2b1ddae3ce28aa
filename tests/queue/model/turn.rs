//! The parts of a runner's turn: promote, lease, settle, extend, reclaim.

use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::{Finish, Settled, Verdict};

use super::{LAST_DUE, LEAST_DUE, Model, in_order, is_bad, key};
use crate::fixture::HOLDER;
use crate::snapshot::{Snapshot, Zset, text};
use crate::step::{CRASH_INFO, CRASHES_MAX, Claim, Promoted, is_ahead};

pub(super) const CRASH: u64 = 1_000_000;
pub(super) const SNOOZE: u64 = 1_000_000_000;
/// A runner that held the job died before the job was known to have started.
pub(super) const SUSPECT: u64 = 2_000_000_000_000_000;
/// Crashes that are counted.
pub(super) const CRASHES: u64 = 1_000;

impl Model {
    pub(super) fn promote(&mut self, n: usize, skip: usize, discard: bool) -> Promoted {
        let now = self.now();
        let bad = self.bury_bad_dues(n, discard);
        let left = n.saturating_sub(bad).max(1);
        let mut due = in_order(&self.state.retry, |due| due.floor() <= now);
        due.truncate((left / 2).max(1));
        let retried: Vec<_> =
            due.iter().map(|id| (id.clone(), self.state.retry.remove(id).unwrap())).collect();
        self.make_ready(&retried);
        let mut moved = due.len();
        let candidates = in_order(&self.state.pending, |due| due.floor() <= now);
        let mut skipped = 0;
        let mut promoted = Vec::new();
        for id in candidates.into_iter().skip(skip).take(left.saturating_sub(moved).max(1)) {
            if is_bad(self.state.pending[&id]) {
                continue;
            }
            if self.is_leased(&id) {
                skipped += 1;
                continue;
            }
            let due = self.state.pending[&id];
            self.withdraw(&id);
            self.forget_failures(&id);
            promoted.push((id, if due == 0.0 { now } else { due }));
        }
        // What they supersede is out of every line before the first of them comes to one.
        self.make_ready(&promoted);
        moved += promoted.len();
        let next = self.next_due();
        self.state.set_number("wake", next);
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
            || retry.values().any(|due| due.floor() <= now)
            || in_order(pending, |due| due.floor() <= now).iter().skip(skip).any(movable)
    }

    fn bury_bad_dues(&mut self, n: usize, discard: bool) -> usize {
        let ranges: [fn(f64) -> bool; 3] =
            [|due| due < 0.0, |due| due > 0.0 && due < LEAST_DUE, |due| due > LAST_DUE];
        let mut bad = 0;
        for range in ranges {
            let mut found = in_order(&self.state.pending, range);
            found.truncate(n.saturating_sub(bad).max(1));
            for id in &found {
                let due = self.state.pending[id];
                let reason =
                    format!("the due time {} is not a unix time in milliseconds", score(due));
                self.withdraw(id);
                if discard {
                    self.state.jobs.remove(id);
                    self.state.opts.remove(id);
                } else {
                    self.bury(id, &format!(r#"{{"class":"bad_due","reason":"{reason}"}}"#));
                }
                if !self.is_leased(id) {
                    self.forget_failures(id);
                    self.leave_turn(id);
                }
            }
            bad += found.len();
            self.keep_newest();
        }
        bad
    }

    fn next_due(&self) -> Option<f64> {
        let now = self.now();
        let pending = self.state.pending.values().filter(|due| **due <= LAST_DUE);
        let times = pending.chain(self.state.retry.values()).map(|due| due.floor());
        times.filter(|due| *due > now).reduce(f64::min)
    }

    pub(super) fn settle(&mut self, claim: &Claim, verdict: &Verdict) -> Settled {
        let id = key(&claim.id);
        if self.state.unack.get(&id) != Some(&(claim.token_us as f64)) {
            return Settled::Lost;
        }
        if let Verdict::Ack | Verdict::Discard | Verdict::Finish(_) = verdict {
            if let Verdict::Finish(finish) = verdict {
                self.leave_behind(&id, claim, finish);
            }
            self.end(&id);
            let is_discarded = *verdict == Verdict::Discard;
            return if is_discarded { Settled::Discarded } else { Settled::Done };
        }
        if let Some(word) = self.end_without_verdict(&id) {
            return word;
        }
        match verdict {
            Verdict::Release { delay } if delay.is_zero() => {
                self.state.unack.remove(&id);
                let score = self.ranked(&id, claim.due);
                self.state.ready.insert(id, score);
                self.wake(self.now());
                Settled::Released
            }
            Verdict::Release { delay } => {
                self.put_in_retry(&id, *delay);
                Settled::Released
            }
            Verdict::Snooze { delay, max_snoozes, .. }
                if self.attempts(&id) % SUSPECT / SNOOZE < u64::from(*max_snoozes) =>
            {
                self.clear(&id);
                self.count(&id, SNOOZE);
                self.put_in_retry(&id, *delay);
                Settled::Snoozed
            }
            Verdict::Nack { delay, max_attempts, info }
            | Verdict::Snooze { nack_delay: delay, max_attempts, info, .. }
                if self.attempts(&id) % CRASH + 1 < u64::from(*max_attempts) =>
            {
                self.clear(&id);
                self.count(&id, 1);
                self.state.errors.insert(id.clone(), info.clone().into_bytes());
                self.put_in_retry(&id, *delay);
                Settled::Retry
            }
            Verdict::Nack { info, .. } | Verdict::Snooze { info, .. } | Verdict::Drop { info } => {
                self.bury(&id, info);
                self.end(&id);
                Settled::Dead
            }
            Verdict::Ack | Verdict::Finish(_) => Settled::Done,
            Verdict::Discard => Settled::Discarded,
        }
    }

    /// What an ack leaves behind.
    fn leave_behind(&mut self, id: &[u8], claim: &Claim, finish: &Finish) {
        let now = self.now();
        let Finish { unique_for, info, result, follow_ups } = finish;
        if !unique_for.is_zero() {
            self.state.unique.insert(id.to_vec(), now + unique_for.as_millis() as f64);
        }
        if !follow_ups.is_empty() {
            let mut entry = format!("{now} ").into_bytes();
            entry.extend(duebox_job::FollowUp::encode(follow_ups));
            let field = format!("{}:{}", claim.token_us, claim.id);
            self.state.outbox.insert(field.into_bytes(), entry);
        }
        let Some(info) = info else { return };
        self.is_done_longer = true;
        self.state.done.insert(id.to_vec(), now);
        self.state.done_info.insert(id.to_vec(), info.clone().into_bytes());
        // The payload under a successor's id is the successor's.
        let own = !self.state.pending.contains_key(id);
        match self.state.jobs.get(id).filter(|_| own) {
            Some(payload) => self.state.done_jobs.insert(id.to_vec(), payload.clone()),
            None => self.state.done_jobs.remove(id),
        };
        match result {
            Some(result) => self.state.done_result.insert(id.to_vec(), result.to_vec()),
            None => self.state.done_result.remove(id),
        };
    }

    pub(super) fn reclaim(&mut self, delay: Duration, discard: bool) -> Vec<(JobId, Settled)> {
        let now_us = self.now_us as f64;
        let expired = in_order(&self.state.unack, |token| token <= now_us);
        if !expired.is_empty() {
            self.state.holders.retain(|_, token| *token > now_us);
        }
        let end = |id: Vec<u8>| {
            let token = self.state.unack[&id];
            let job = JobId::from_redis(id.clone());
            if let Some(word) = self.end_without_verdict(&id) {
                return (job, word);
            }
            self.clear(&id);
            if is_ahead(token as u64) {
                self.count(&id, SUSPECT);
                self.put_in_retry(&id, delay);
                return (job, Settled::Retry);
            }
            let rule = self.state.number("max_crashes").map(|most| most as u32);
            let most = self.options(&id).max_crashes().or(rule).unwrap_or(CRASHES_MAX);
            if self.attempts(&id) / CRASH % CRASHES + 1 < u64::from(most) {
                self.count(&id, CRASH);
                self.put_in_retry(&id, delay);
                return (job, Settled::Retry);
            }
            if !discard {
                self.bury(&id, CRASH_INFO);
            }
            self.end(&id);
            (job, if discard { Settled::Discarded } else { Settled::Dead })
        };
        expired.into_iter().map(end).collect()
    }

    /// Leases have ended: runners that wait for one to end, or for their key's turn, may look.
    pub(super) fn leases_ended(&mut self) {
        if self.state.meta.remove(b"waiting".as_slice()).is_some() {
            self.wake(self.now());
        }
        self.wake_if_through();
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
        self.wake_for_successor(id);
        self.forget_failures(id);
        if !self.state.pending.contains_key(id) {
            self.state.jobs.remove(id);
            self.state.opts.remove(id);
        }
        self.leaving.push(id.to_vec());
    }

    pub(super) fn attempts(&self, id: &[u8]) -> u64 {
        self.state.attempts.get(id).map_or(0, |count| text(count) as u64)
    }

    fn count(&mut self, id: &[u8], more: u64) {
        let attempts = self.attempts(id) + more;
        self.state.attempts.insert(id.to_vec(), attempts.to_string().into_bytes());
    }

    /// The job is a suspect no more.
    fn clear(&mut self, id: &[u8]) {
        let attempts = self.attempts(id);
        if attempts >= SUSPECT {
            let counted = (attempts % SUSPECT).to_string().into_bytes();
            self.state.attempts.insert(id.to_vec(), counted);
        }
    }

    /// From unack; a turn is kept while the order is strict.
    fn put_in_retry(&mut self, id: &[u8], delay: Duration) {
        let due = self.now() + delay.as_millis() as f64;
        self.state.unack.remove(id);
        self.state.retry.insert(id.to_vec(), due);
        self.wake(due);
        if self.is_relaxed() {
            self.leaving.push(id.to_vec());
        }
    }

    /// A due successor need wait no longer.
    fn wake_for_successor(&mut self, id: &[u8]) {
        if self.state.pending.get(id).is_some_and(|due| due.floor() <= self.now()) {
            self.wake(self.now());
        }
    }

    /// Moves payload and options to dead.
    pub(super) fn bury(&mut self, id: &[u8], info: &str) {
        let info = match self.state.dead_info.get(id) {
            Some(earlier) => with_deaths(info, deaths(earlier) + 1),
            None => info.to_owned(),
        };
        let payload = self.state.jobs.remove(id).unwrap();
        self.is_dead_longer = true;
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
        let later = claim.token_us - claim.token_us % 2 + by.as_micros() as u64;
        let score = *before.get(&id)?;
        let note = format!("{HOLDER}:+{later}").into_bytes();
        if score == claim.token_us as f64 {
            self.state.unack.insert(id, later as f64);
            self.state.holders.insert(note, later as f64);
            return Some(later);
        }
        let is_noted = later <= self.now_us || self.state.holders.contains_key(&note);
        (score == later as f64 && is_noted).then_some(later)
    }
}

/// How many jobs of an id have died, as the info of the last one says.
fn deaths(info: &[u8]) -> u64 {
    let info: serde_json::Value = serde_json::from_slice(info).unwrap();
    info["deaths"].as_u64().unwrap_or(1)
}

fn with_deaths(info: &str, deaths: u64) -> String {
    let fields = info.strip_suffix('}').unwrap();
    let comma = if fields == "{" { "" } else { "," };
    format!("{fields}{comma}\"deaths\":{deaths}}}")
}

/// A score as Redis writes it.
fn score(score: f64) -> String {
    if score.is_infinite() {
        return if score > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    format!("{score}")
}
