//! What is not of one job: the rules of a topic, pausing it, schedules, marks, and follow-ups that
//! come from a topic's outbox.

use std::collections::BTreeMap;

use duebox_queue::{Due, Limits, Pushed, Ticked};

use super::{Model, in_order};
use crate::parcel::{KEPT, Parcel, UNMARKED, Word};
use crate::snapshot::{Zset, text};
use crate::step::{Reply, TickStep};

impl Model {
    pub(super) fn configure(&mut self, rules: &Limits) -> Reply {
        let interval = rules.rate.map(|rate| format!("{:.6}", rate.interval_us()));
        let burst = rules
            .rate
            .map(|_| rules.burst.map_or_else(|| "1".to_owned(), |burst| burst.to_string()));
        let fields = [
            ("per_key", rules.per_key.map(|n| n.to_string())),
            ("order", rules.relaxed.then(|| "relaxed".to_owned())),
            ("max_pending", rules.max_pending.map(|n| n.to_string())),
            ("max_running", rules.max_running.map(|n| n.to_string())),
            ("rate", interval),
            ("burst", burst),
            ("ttl", rules.ttl.map(|ttl| ttl.as_millis().to_string())),
            ("priorities", rules.priorities.then(|| "1".to_owned())),
            ("max_crashes", rules.max_crashes.map(|n| n.to_string())),
            ("max_dead", rules.max_dead.map(|n| n.to_string())),
        ];
        let before = self.state.meta.clone();
        for (name, value) in fields {
            match value {
                Some(value) => self.state.meta.insert(name.into(), value.into_bytes()),
                None => self.state.meta.remove(name.as_bytes()),
            };
        }
        let changed = self.state.meta != before;
        if changed {
            self.wake(self.now());
        }
        Reply::Changed(changed)
    }

    pub(super) fn pause(&mut self, paused: bool) -> Reply {
        let before = self.state.number("paused");
        if before.is_some() == paused {
            return Reply::Changed(false);
        }
        self.state.set_number("paused", paused.then_some(1.0));
        if !paused {
            self.state.set_number("wake", Some(self.now()));
        }
        Reply::Changed(true)
    }

    pub(super) fn tick(&mut self, tick: &TickStep) -> Ticked {
        let TickStep { schedule, line, expected, until, times, payload } = tick;
        let now = self.now() as u64;
        if *until > now {
            return Ticked::Early(std::time::Duration::from_millis(until - now));
        }
        let line_field = format!("{schedule}:line").into_bytes();
        let known = self.state.ticks.get(schedule.as_bytes()).map(|time| text(time) as u64);
        if known != *expected {
            let line = self.state.ticks.get(&line_field).cloned().unwrap_or_default();
            return Ticked::Taken { until: known, line: String::from_utf8(line).unwrap() };
        }
        self.state.ticks.insert(schedule.clone().into(), until.to_string().into());
        self.state.ticks.insert(line_field, line.clone().into());
        let words = times.iter().map(|time| {
            let id = format!("{schedule}@{time}").into_bytes();
            if self.waits(&id) || self.is_leased(&id) {
                return Pushed::Kept;
            }
            if self.is_held(&id) {
                return Pushed::Held;
            }
            self.state.jobs.insert(id.clone(), payload.to_vec());
            self.state.ready.insert(id, *time as f64);
            self.state.ticks.insert(format!("{schedule}:run").into(), time.to_string().into());
            self.wake(*time as f64);
            Pushed::Pushed
        });
        Ticked::Done(words.collect())
    }

    /// Forgets the oldest done jobs above a count.
    /// Removes the oldest ended jobs above `max_dead`, where some were added.
    pub(super) fn keep_newest(&mut self) {
        let (dead, done) = (&mut self.is_dead_longer, &mut self.is_done_longer);
        let (adds_dead, adds_done) = (std::mem::take(dead), std::mem::take(done));
        let Some(most) = self.state.number("max_dead") else { return };
        if adds_dead {
            self.prune_dead_above(most as usize);
        }
        if adds_done {
            self.prune_done(most as usize);
        }
    }

    pub(super) fn prune_dead_above(&mut self, kept: usize) -> Reply {
        let excess = self.state.dead.len().saturating_sub(kept);
        let mut oldest = in_order(&self.state.dead, |_| true);
        oldest.truncate(excess);
        self.prune(oldest)
    }

    pub(super) fn prune_done(&mut self, kept: usize) -> Reply {
        let mut oldest = in_order(&self.state.done, |_| true);
        oldest.truncate(self.state.done.len().saturating_sub(kept));
        for id in &oldest {
            self.state.done.remove(id);
            self.state.done_jobs.remove(id);
            self.state.done_info.remove(id);
            self.state.done_result.remove(id);
        }
        Reply::Pruned(oldest.len() as u64)
    }

    pub(super) fn sweep(&mut self) -> Reply {
        let now = self.now();
        let forget = |marks: &mut Zset| {
            let before = marks.len();
            marks.retain(|_, until| *until > now);
            (before - marks.len()) as u64
        };
        Reply::PrunedRecords(forget(&mut self.state.unique), forget(&mut self.state.inbox))
    }

    /// Pushes follow-ups of another topic's acks, unless they were read too long ago.
    pub(crate) fn take_in(
        &mut self,
        parcels: &[&Parcel],
        not_after_ms: u64,
        now_us: u64,
    ) -> Option<Vec<Word>> {
        (self.now_us, self.through) = (now_us, 0);
        let now = self.now();
        if now as u64 > not_after_ms {
            return None;
        }
        let words = parcels.iter().map(|parcel| self.take_in_one(parcel)).collect();
        self.state.inbox.retain(|_, until| *until > now);
        Some(words)
    }

    fn take_in_one(&mut self, parcel: &Parcel) -> Word {
        let until = self.now() + UNMARKED.as_millis() as f64;
        let id = parcel.follow_up.id.as_bytes().to_vec();
        if let Some(expiry) = self.state.inbox.get(&parcel.mark).copied() {
            // A mark that was not released lasts while its entry is in the outbox.
            let left = expiry - self.now();
            if left > KEPT.as_millis() as f64 || left <= 0.0 {
                self.state.inbox.insert(parcel.mark.clone(), until);
            }
            return Word::Known;
        }
        let Some(due) = self.due(Due::At(parcel.due_ms())) else { return Word::BadDue };
        self.state.inbox.insert(parcel.mark.clone(), until);
        if self.is_live(&id) || self.is_held(&id) {
            return Word::Kept;
        }
        self.state.jobs.insert(id.clone(), parcel.follow_up.payload.to_vec());
        match parcel.follow_up.options.to_json() {
            none if none.is_empty() => self.state.opts.remove(&id),
            json => self.state.opts.insert(id.clone(), json.into_bytes()),
        };
        if self.is_leased(&id) {
            // It was cancelled while it runs: this one follows it.
            self.put_in_pending(&id, due);
        } else {
            self.place(&id, due);
        }
        Word::Pushed
    }

    /// The outbox entries of these follow-ups are gone: in a while their marks may go too.
    pub(crate) fn let_marks_end(&mut self, parcels: &[&Parcel], now_us: u64) {
        self.now_us = now_us;
        let until = self.now() + KEPT.as_millis() as f64;
        let inbox = &mut self.state.inbox;
        for parcel in
            parcels.iter().filter(|parcel| inbox.contains_key(&parcel.mark)).collect::<Vec<_>>()
        {
            inbox.insert(parcel.mark.clone(), until);
        }
    }

    /// The follow-ups have been pushed.
    pub(crate) fn empty_outbox(&mut self) {
        self.state.outbox.clear();
    }

    /// Outbox entries by their fields.
    pub(crate) fn outbox(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.state.outbox
    }
}
