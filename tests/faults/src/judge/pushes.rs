//! Judges pushes: each that was confirmed, or found later, must end.

use std::collections::HashMap;
use std::time::Instant;

use super::{JUDGED_MIN, Judge, UNDER_WAY, Verdict, name_some};
use crate::ledger::{Answer, Name};
use crate::plan::{CHILDREN, Plan, Verdict as RunVerdict, child_of};

impl Judge<'_> {
    /// Every confirmed push and every follow-up of a job that was done must end.
    pub(super) fn pushes(&self, verdict: &mut Verdict) {
        let (mut lost, mut stuck) = (Vec::new(), Vec::new());
        let (mut ghosts, mut unknown) = (Vec::new(), Vec::new());
        let mut check = |name: &Name, at: Instant, verdict: &mut Verdict| {
            if self.ended.contains(name) || self.state.dead.contains_key(name) {
                verdict.ended += 1;
            } else if self.state.live.contains(name) {
                stuck.push(name.clone());
            } else if self.lost_data(at) {
                verdict.lost_with_data += 1;
            } else {
                lost.push(name.clone());
            }
        };
        for (name, push) in &self.books.pushes {
            match push.answer {
                Answer::Ok => {
                    verdict.confirmed += 1;
                    check(name, push.answered, verdict);
                }
                Answer::Unknown => match push.found {
                    Some((true, at)) => {
                        verdict.confirmed += 1;
                        verdict.found += 1;
                        check(name, at, verdict);
                    }
                    // It has run before, or was never stored: a later first run is of nothing.
                    Some((false, at)) if self.first_began(name).is_some_and(|began| began > at) => {
                        if self.books.losses.is_empty() {
                            ghosts.push(name.clone());
                        }
                    }
                    Some((false, _)) => {}
                    None => unknown.push(name.clone()),
                },
                Answer::Failed if self.ended.contains(name) => ghosts.push(name.clone()),
                Answer::Failed => {}
            }
        }
        for (parent, at) in self.parents() {
            // The lease of the parent may be lost although its verdict came later.
            let leased = at.checked_sub(UNDER_WAY).filter(|at| self.lost_data(*at));
            check(&Name::new(CHILDREN, &child_of(&parent.id)), leased.unwrap_or(at), verdict);
        }
        verdict.lost = lost.len();
        name_some("lost", &lost, verdict);
        name_some("still in Redis", &stuck, verdict);
        name_some("pushed although the push was refused", &ghosts, verdict);
        name_some("pushed without an answer, and no daemon could tell of them", &unknown, verdict);
        self.losses(verdict);
    }

    /// Enough pushes must lie outside the times of loss. Notes how long before its fault the oldest loss was.
    fn losses(&self, verdict: &mut Verdict) {
        if self.books.losses.is_empty() {
            return;
        }
        let confirmed = self.books.pushes.values().filter(|push| push.answer == Answer::Ok);
        let outside = confirmed.clone().filter(|push| !self.lost_data(push.answered)).count();
        let confirmed = confirmed.count();
        let note = format!("{outside} of {confirmed} outside the times of loss");
        if outside * 100 < confirmed * JUDGED_MIN {
            verdict.problems.push(format!("only {note}"));
        } else {
            verdict.notes.push(note);
        }
        let lost = self.books.pushes.iter().filter(|(name, push)| {
            let is_known = self.ended.contains(name) || self.state.dead.contains_key(*name);
            push.answer == Answer::Ok && !is_known
        });
        let before = lost.filter_map(|(_, push)| {
            let at = push.answered;
            let loss = self.books.losses.iter().find(|loss| (loss.from..=loss.to).contains(&at))?;
            Some(loss.at.saturating_duration_since(at))
        });
        if let Some(oldest) = before.max() {
            verdict.notes.push(format!("the oldest loss was {} ms old", oldest.as_millis()));
        }
    }

    fn first_began(&self, name: &Name) -> Option<Instant> {
        let runs = self.books.runs.iter().filter(|run| run.name == *name);
        runs.map(|run| run.began).min()
    }

    /// Jobs with a follow-up that ended, and when.
    fn parents(&self) -> HashMap<&Name, Instant> {
        let runs = self.books.runs.iter().filter(|run| run.name.plan() == Plan::Follow);
        let acked = runs.filter(|run| run.verdict == RunVerdict::Ack);
        acked.filter_map(|run| Some((&run.name, run.answered?))).collect()
    }

    /// Whether Redis may have lost what it was told at this time.
    fn lost_data(&self, at: Instant) -> bool {
        self.books.losses.iter().any(|loss| (loss.from..=loss.to).contains(&at))
    }
}
