//! How leases end, or go on: a valid verdict counts, a stale one changes nothing, and what comes back
//! comes back with its own attempts and not before its time.

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::{Settled, Verdict};

use super::{Ledger, Life};
use crate::step::{Claim, is_ahead};

impl Ledger {
    pub(super) fn settled(&mut self, claim: &Claim, verdict: &Verdict, word: Settled) {
        let (earliest, relaxed) = (self.clock.0, self.promises.rules.relaxed);
        let life = self.life(&claim.id);
        life.reserve(verdict, word, earliest);
        let holds = life.running.as_ref().is_some_and(|(token, ..)| *token == claim.token_us);
        assert_eq!(word != Settled::Lost, holds, "{}: {word:?}", claim.id);
        let Some((_, mut job, gone)) = life.running.take_if(|_| holds) else { return };
        let over = if let Verdict::Ack | Verdict::Finish(_) = verdict {
            Some(Settled::Done)
        } else if *verdict == Verdict::Discard {
            Some(Settled::Discarded)
        } else if life.waiting.is_some() {
            Some(Settled::Superseded)
        } else {
            gone.then_some(Settled::Cancelled)
        };
        if let Some(over) = over {
            assert_eq!(word, over, "{}", claim.id);
            return;
        }
        let delay = match (verdict, word) {
            (Verdict::Release { delay }, Settled::Released) => *delay,
            (Verdict::Snooze { delay, max_snoozes, .. }, Settled::Snoozed) => {
                job.snoozes += 1;
                job.is_suspect = job.crashes > 0;
                assert!(job.snoozes <= u64::from(*max_snoozes), "{}: one too many", claim.id);
                *delay
            }
            (
                Verdict::Nack { delay, max_attempts, .. }
                | Verdict::Snooze { nack_delay: delay, max_attempts, .. },
                Settled::Retry,
            ) => {
                job.failures += 1;
                job.is_suspect = job.crashes > 0;
                assert!(job.failures < u64::from(*max_attempts), "{}: one too many", claim.id);
                *delay
            }
            (
                Verdict::Nack { max_attempts, .. } | Verdict::Snooze { max_attempts, .. },
                Settled::Dead,
            ) => {
                assert!(job.failures + 1 >= u64::from(*max_attempts), "{}: too early", claim.id);
                life.dead = Some(job.payload);
                return;
            }
            (Verdict::Drop { .. }, Settled::Dead) => {
                life.dead = Some(job.payload);
                return;
            }
            _ => panic!("{}: {word:?} for {verdict:?}", claim.id),
        };
        let to_ready = delay.is_zero() && word == Settled::Released;
        if !to_ready {
            job.due = earliest + delay.as_millis() as f64;
        }
        job.has_turn = to_ready || !relaxed;
        life.waiting = Some(job);
    }

    pub(super) fn extended(
        &mut self,
        known: &BTreeMap<JobId, Life>,
        claim: &Claim,
        new: Option<u64>,
    ) {
        let held = known.get(&claim.id).and_then(|life| life.running.as_ref());
        let holds = held.is_some_and(|(token, ..)| *token == claim.token_us);
        assert!(new.is_some() || !holds, "{}: a valid extension was refused", claim.id);
        if let (true, Some(new), Some((token, ..))) =
            (holds, new, &mut self.life(&claim.id).running)
        {
            *token = new;
        }
    }

    pub(super) fn reclaimed(&mut self, id: &JobId, word: Settled, delay: Duration) {
        let ((earliest, latest), relaxed) = (self.clock, self.promises.rules.relaxed);
        let life = self.life(id);
        let Some((token, mut job, gone)) = life.running.take() else {
            panic!("{id}: no lease to end")
        };
        assert!(token / 1_000 <= latest as u64, "{id}: the lease still held");
        match word {
            Settled::Superseded => assert!(life.waiting.is_some(), "{id}"),
            Settled::Cancelled => assert!(gone && life.waiting.is_none(), "{id}"),
            Settled::Dead | Settled::Discarded => {
                assert!(!is_ahead(token), "{id}: buried, though it may not have started");
                life.dead = (word == Settled::Dead).then_some(job.payload).or(life.dead.take());
            }
            Settled::Retry => {
                job.crashes += u64::from(!is_ahead(token));
                job.is_suspect = true;
                job.has_turn = !relaxed;
                job.due = earliest + delay.as_millis() as f64;
                assert!(life.waiting.replace(job).is_none(), "{id}");
            }
            _ => panic!("{id}: reclaimed as {word:?}"),
        }
    }
}

impl Life {
    /// Reserves the id of a job that was finished.
    fn reserve(&mut self, verdict: &Verdict, word: Settled, earliest: f64) {
        if let (Verdict::Finish(finish), Settled::Done) = (verdict, word)
            && !finish.unique_for.is_zero()
        {
            self.held_until = earliest + finish.unique_for.as_millis() as f64;
        }
    }
}
