//! Turns and lines: at most so many jobs of a key are in ready, in unack or, while the order is
//! strict, in retry. The others that are due stand in the key's line.

use duebox_job::{Options, Priority};
use duebox_queue::Rescheduled;

use super::{LAST_DUE, Model};
use crate::snapshot::{Place, RANK, text};

/// Jobs that one step of a line lets through at most.
const THROUGH_MAX: usize = 100;

impl Model {
    pub(super) fn options(&self, id: &[u8]) -> Options {
        let json = self.state.opts.get(id);
        json.map(|json| Options::from_json(json).unwrap()).unwrap_or_default()
    }

    /// The score in ready of a job that is due then.
    pub(super) fn ranked(&self, id: &[u8], due: f64) -> f64 {
        match self.options(id).priority() {
            Priority::High => due - RANK,
            Priority::Normal => due,
            Priority::Low => due + RANK,
        }
    }

    /// Puts a job that waits nowhere where its due time says.
    pub(super) fn place(&mut self, id: &[u8], due: f64) {
        if due > self.now() {
            self.put_in_pending(id, due);
            self.wake(due);
        } else if self.admit(id, due, None) == Rescheduled::Ready {
            self.wake(self.now());
        }
        self.wake_if_through();
    }

    /// Puts a due job that is in no stage into ready, or into its key's line. Without a score it goes
    /// behind the others of its millisecond.
    pub(super) fn admit(&mut self, id: &[u8], due: f64, score: Option<f64>) -> Rescheduled {
        let limit = self.rule("per_key");
        let key = self.options(id).key().map(|key| key.as_bytes().to_vec()).filter(|_| limit > 0);
        let held = self.turn_of(id);
        if let Some((_, held)) = &held
            && Some(held) != key.as_ref()
        {
            self.leave_turn(id);
        }
        match key {
            Some(key) if held.is_some_and(|(_, held)| held == key) => {
                self.note_turn(id, due, &key);
            }
            Some(key) if self.turns(&key) >= limit || self.first_in_line(&key).is_some() => {
                self.join_line(id, due, key.clone());
                // The limit may have been raised since the line was formed.
                self.advance(&key);
                let waits = self.state.blocked_at.contains_key(id);
                return if waits { Rescheduled::Blocked } else { Rescheduled::Ready };
            }
            Some(key) => self.take_turn(id, due, &key),
            None => {}
        }
        let score = score.unwrap_or_else(|| self.last_in_ready(id, due));
        self.state.ready.insert(id.to_vec(), score);
        Rescheduled::Ready
    }

    /// Lets the first of a key's line through while a turn is free, behind what is due already.
    fn advance(&mut self, key: &[u8]) {
        for _ in 0..THROUGH_MAX {
            let limit = self.rule("per_key");
            if limit > 0 && self.turns(key) >= limit {
                return;
            }
            let Some((place, id)) = self.first_in_line(key) else { return };
            self.leave_line(&id);
            self.take_turn(&id, place.due, key);
            let score = self.last_in_ready(&id, self.now());
            self.state.ready.insert(id, score);
            self.through += 1;
        }
    }

    /// Gives back the turn of a job, if it holds one, to the next in line.
    pub(super) fn leave_turn(&mut self, id: &[u8]) {
        let Some((_, key)) = self.turn_of(id) else { return };
        self.state.turns_of.remove(id);
        self.set_turns(&key, self.turns(&key) - 1);
        self.advance(&key);
    }

    /// Lets the jobs of the step give back their turns, after all of them have left their stages.
    pub(super) fn let_leave(&mut self) {
        for id in std::mem::take(&mut self.leaving) {
            self.leave_turn(&id);
        }
    }

    /// Takes a job out of its line, if it stands in one.
    pub(super) fn leave_line(&mut self, id: &[u8]) -> bool {
        let Some(member) = self.state.blocked_at.remove(id) else { return false };
        self.state.blocked.remove(&member);
        true
    }

    fn join_line(&mut self, id: &[u8], due: f64, key: Vec<u8>) {
        let seq = self.state.number("seq").unwrap_or(0.0) + 1.0;
        self.state.set_number("seq", Some(seq));
        let due = due.floor();
        let member = Place { key, due, seq }.member(id);
        self.state.blocked.insert(member.clone(), 0.0);
        self.state.blocked_at.insert(id.to_vec(), member);
    }

    fn first_in_line(&self, key: &[u8]) -> Option<(Place, Vec<u8>)> {
        let in_order = self.state.blocked.keys();
        let mut line = in_order.map(|member| (Place::of(member), Place::id_of(member)));
        line.find(|(place, _)| place.key == key)
    }

    /// The due time and the key of a job that holds a turn.
    pub(super) fn turn_of(&self, id: &[u8]) -> Option<(f64, Vec<u8>)> {
        let turn = self.state.turns_of.get(id)?;
        let space = turn.iter().position(|byte| *byte == b' ').unwrap();
        Some((text(&turn[..space]), turn[space + 1..].to_vec()))
    }

    fn take_turn(&mut self, id: &[u8], due: f64, key: &[u8]) {
        self.set_turns(key, self.turns(key) + 1);
        self.note_turn(id, due, key);
    }

    fn note_turn(&mut self, id: &[u8], due: f64, key: &[u8]) {
        let mut turn = format!("{} ", due.floor()).into_bytes();
        turn.extend(key);
        self.state.turns_of.insert(id.to_vec(), turn);
    }

    fn turns(&self, key: &[u8]) -> u64 {
        self.state.turns.get(key).map_or(0, |count| text(count) as u64)
    }

    fn set_turns(&mut self, key: &[u8], count: u64) {
        match count {
            0 => self.state.turns.remove(key),
            _ => self.state.turns.insert(key.to_vec(), count.to_string().into_bytes()),
        };
    }

    /// When a job in ready fell due, whatever its priority and however long its key let it wait.
    pub(super) fn fell_due(&self, id: &[u8], score: f64) -> f64 {
        let of_score = match score {
            high if high < -LAST_DUE => high + RANK,
            low if low > LAST_DUE => low - RANK,
            due => due,
        };
        self.turn_of(id).map_or(of_score, |(due, _)| due)
    }
}
