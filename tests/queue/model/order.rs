//! The order of jobs that fall due in the same millisecond: that of their pushes.

use std::collections::BTreeMap;

use super::{LAST_DUE, Model};
use crate::snapshot::{Snapshot, Zset};

/// Milliseconds that a full one can push a job ahead.
const AHEAD_MAX: usize = 1_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Pending,
    Ready,
}

/// The last job of a millisecond.
#[derive(Default)]
struct Tail(Option<(Vec<u8>, f64)>);

impl Tail {
    fn of(stage: &Zset, ms: f64) -> Self {
        let mut tail = Self::default();
        for ahead in 0..=AHEAD_MAX {
            let from = ms + ahead as f64;
            let of_ms = stage.iter().filter(|(_, score)| (from..from + 1.0).contains(*score));
            let last = of_ms.max_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
            let Some((id, score)) = last else { break };
            tail.0 = Some((id.clone(), *score));
            if score.next_up().floor() == from {
                break;
            }
        }
        tail
    }

    /// The score of a job behind it, not before `score`: the same while ids ascend.
    fn behind(&mut self, score: f64, id: &[u8]) -> f64 {
        let score = match &self.0 {
            Some((last, end)) if score <= *end && last.as_slice() < id => *end,
            Some((_, end)) if score <= *end => end.next_up(),
            _ => score,
        };
        self.0 = Some((id.to_vec(), score));
        score
    }
}

/// The tails of the milliseconds into which one push goes, as they were before it.
pub(super) struct Tails<'s> {
    before: &'s Snapshot,
    tails: BTreeMap<(Stage, i64), Tail>,
}

impl<'s> Tails<'s> {
    pub(super) fn of(before: &'s Snapshot) -> Self {
        Self { before, tails: BTreeMap::new() }
    }

    pub(super) fn behind(&mut self, stage: Stage, ms: f64, id: &[u8]) -> f64 {
        if stage == Stage::Pending && is_among_the_last(ms) {
            return ms;
        }
        let scores = match stage {
            Stage::Pending => &self.before.pending,
            Stage::Ready => &self.before.ready,
        };
        let tail = self.tails.entry((stage, ms as i64)).or_insert_with(|| Tail::of(scores, ms));
        tail.behind(ms, id)
    }
}

/// A score behind the last valid due time would be invalid.
fn is_among_the_last(due: f64) -> bool {
    due >= LAST_DUE - 2.0 * AHEAD_MAX as f64
}

impl Model {
    pub(super) fn put_in_pending(&mut self, id: &[u8], due: f64) {
        let behind = || Tail::of(&self.state.pending, due).behind(due, id);
        let score = if is_among_the_last(due) { due } else { behind() };
        self.state.pending.insert(id.to_vec(), score);
    }

    /// The score in ready behind all jobs of this millisecond.
    pub(super) fn last_in_ready(&self, id: &[u8], due: f64) -> f64 {
        let score = self.ranked(id, due);
        Tail::of(&self.state.ready, score).behind(score, id)
    }

    /// Puts due jobs into ready, in the order in which they waited.
    pub(super) fn make_ready(&mut self, due: &[(Vec<u8>, f64)]) {
        let mut tails: BTreeMap<i64, Tail> = BTreeMap::new();
        let mut before = f64::NEG_INFINITY;
        for (id, due) in due {
            // A plain push for 0 is due now, and comes before those that are due earlier.
            if *due < before {
                tails.clear();
            }
            before = *due;
            let score = self.ranked(id, *due);
            let tail = tails.entry((score - due).round() as i64).or_default();
            let score = tail.behind(score, id);
            self.admit(id, *due, Some(score));
        }
    }
}
