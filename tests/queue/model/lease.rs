//! Leasing: which of the ready jobs a call gets, and what becomes of those that are not to run.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Priority};
use duebox_queue::LeaseCall;

use super::turn::{CRASH, CRASHES, SNOOZE, SUSPECT};
use super::{LAST_DUE, Model, in_order};
use crate::snapshot::RANK;
use crate::step::{Claim, Given, Granted, Reply};

/// Of ten jobs six are high, three normal and one low, where all three wait.
const SHARES: [Priority; 10] = {
    use Priority::{High as H, Low as L, Normal as N};
    [H, N, H, H, N, H, H, N, H, L]
};

/// What the rate of a topic allows, in µs.
struct Pace {
    every: f64,
    burst: f64,
    /// How far ahead of the clock the jobs are that have started.
    ahead: f64,
}

impl Pace {
    fn allows(&self) -> usize {
        ((self.burst - self.ahead) / self.every + 1e-9).floor() as usize
    }

    /// How long until the next job may start.
    fn wait(&self) -> Duration {
        let us = self.ahead + self.every - self.burst;
        Duration::from_millis((us / 1_000.0).ceil().max(0.0) as u64)
    }
}

impl Model {
    pub(super) fn lease(&mut self, call: &LeaseCall) -> Reply {
        let now_us = self.now_us as f64;
        self.state.holders.retain(|_, token| *token > now_us);
        if let Some(token) = self.state.holders.get(call.call_id.as_bytes()) {
            return self.lease_again(*token as u64, call.lease);
        }
        if call.last_at_ms.is_some_and(|last| self.now_us / 1_000 > last) {
            return Reply::Late;
        }
        if self.state.meta.contains_key(b"paused".as_slice()) {
            return Reply::Paused;
        }
        if self.state.ready.is_empty() {
            return Reply::Empty(None);
        }
        let mut room = call.jobs;
        if self.rule("max_running") > 0 {
            let free = (self.rule("max_running") as usize).saturating_sub(self.state.unack.len());
            if free < room {
                self.state.set_number("waiting", Some(1.0));
            }
            room = room.min(free);
            if room == 0 {
                return Reply::Limited(None);
            }
        }
        let pace = self.pace();
        let held_back = pace.as_ref().is_some_and(|pace| pace.allows() < room);
        if let Some(pace) = pace.as_ref().filter(|_| held_back) {
            room = pace.allows();
            if room == 0 {
                return Reply::Limited(Some(pace.wait()));
            }
        }
        self.lease_up_to(call, room, pace, held_back)
    }

    fn pace(&self) -> Option<Pace> {
        let every = self.state.number("rate")?;
        let burst = every * self.state.number("burst").unwrap_or(1.0);
        let tat = self.state.number("tat").unwrap_or(0.0);
        Some(Pace { every, burst, ahead: (tat - self.now_us as f64).min(burst).max(0.0) })
    }

    fn lease_up_to(
        &mut self,
        call: &LeaseCall,
        room: usize,
        pace: Option<Pace>,
        held_back: bool,
    ) -> Reply {
        let mut chosen = self.choose(room, call.min_age);
        let mut wait = if chosen.len() < room { self.wait_for_age(call.min_age) } else { None };
        if chosen.is_empty() {
            return Reply::Empty(wait);
        }
        if let Some(most) = call.bytes_max {
            let fits = self.fitting(&chosen, most as usize);
            if fits < chosen.len() {
                chosen.truncate(fits);
                wait = Some(Duration::ZERO);
            }
        }
        let held_back = held_back && chosen.len() == room;
        let token_us = even_from(self.now_us + call.lease.as_micros() as u64);
        let mut granted = Granted { wait, ..Granted::default() };
        let mut superseded = Vec::new();
        for id in chosen {
            let due = self.fell_due(&id, self.state.ready[&id]);
            let is_superseded = self.state.pending.contains_key(&id);
            let starts = granted.jobs.len() < call.at_once;
            if !is_superseded && !starts && self.is_suspect(&id) && !self.is_expired(&id, due) {
                granted.suspects += 1;
                continue;
            }
            self.state.ready.remove(&id);
            if self.state.pending.contains_key(&id) {
                self.forget_failures(&id);
                superseded.push(id);
                granted.removed += 1;
            } else if self.is_expired(&id, due) {
                self.expire(&id, call.expired_info.as_deref().unwrap_or_default());
                granted.expired += 1;
            } else {
                let token_us = if starts { token_us } else { token_us + 1 };
                self.state.unack.insert(id.clone(), token_us as f64);
                granted.jobs.push(self.give(&id, token_us, due));
            }
        }
        superseded.iter().for_each(|id| self.leave_turn(id));
        self.let_leave();
        self.wake_if_through();
        if !granted.jobs.is_empty() {
            self.state.holders.insert(call.call_id.clone().into_bytes(), token_us as f64);
        }
        if let Some(pace) = pace {
            self.advance_pace(pace, held_back, &mut granted);
        }
        Reply::Leased(granted)
    }

    /// Counts the jobs that were leased against the rate.
    fn advance_pace(&mut self, mut pace: Pace, held_back: bool, granted: &mut Granted) {
        let started = granted.jobs.len() as f64;
        pace.ahead += started * pace.every;
        if started > 0.0 {
            self.state.set_number("tat", Some((self.now_us as f64 + pace.ahead).ceil()));
        }
        if held_back {
            granted.wait = Some(pace.wait());
        }
    }

    /// The jobs to lease, of those that have been due for so long.
    fn choose(&mut self, room: usize, min_age: Duration) -> Vec<Vec<u8>> {
        let newest = self.now() - min_age.as_millis() as f64;
        let old = |score: f64| min_age.is_zero() || class_and_time(score).1.floor() <= newest;
        let mut waiting = in_order(&self.state.ready, old);
        if self.rule("priorities") == 0 {
            waiting.truncate(room);
            return waiting;
        }
        let mut lane = self.rule("lane") as usize;
        let mut chosen = Vec::new();
        while chosen.len() < room && !waiting.is_empty() {
            let share = SHARES[lane % SHARES.len()];
            let class = |id: &Vec<u8>| class_and_time(self.state.ready[id]).0;
            // What a class does not use goes to the highest.
            let next = waiting.iter().position(|id| class(id) == share).unwrap_or(0);
            chosen.push(waiting.remove(next));
            lane += 1;
        }
        if !chosen.is_empty() {
            self.state.set_number("lane", Some((lane % SHARES.len()) as f64));
        }
        chosen
    }

    /// How many of these have payloads that fit; one always does.
    fn fitting(&self, chosen: &[Vec<u8>], most: usize) -> usize {
        let mut bytes = 0;
        let fits = |id: &&Vec<u8>| {
            bytes += self.state.jobs.get(*id).map_or(0, Vec::len);
            bytes <= most
        };
        chosen.iter().take_while(fits).count().max(1)
    }

    /// When the first job is old enough that is too young now.
    fn wait_for_age(&self, min_age: Duration) -> Option<Duration> {
        let age = min_age.as_millis() as f64;
        let times = self.state.ready.values().map(|score| class_and_time(*score).1);
        let young = times.filter(|time| age > 0.0 && *time > self.now() - age);
        let ms = young.reduce(f64::min)? + age - self.now();
        Some(Duration::from_millis(ms as u64))
    }

    fn is_expired(&self, id: &[u8], due: f64) -> bool {
        let own = self.options(id).ttl().map(|ttl| ttl.as_millis() as u64);
        let ttl = own.unwrap_or(self.rule("ttl")) as f64;
        let tried = self.state.attempts.contains_key(id);
        !tried && ttl > 0.0 && due + ttl < self.now()
    }

    fn is_suspect(&self, id: &[u8]) -> bool {
        let attempts = self.attempts(id);
        attempts >= SUSPECT || !(attempts / CRASH).is_multiple_of(CRASHES)
    }

    fn expire(&mut self, id: &[u8], info: &str) {
        if info.is_empty() {
            self.state.jobs.remove(id);
            self.state.opts.remove(id);
        } else {
            self.bury(id, info);
        }
        self.leaving.push(id.to_vec());
    }

    fn lease_again(&mut self, token_us: u64, lease: Duration) -> Reply {
        let mut granted = Granted::default();
        let of_call = |token: f64| token == token_us as f64 || token == (token_us + 1) as f64;
        for id in in_order(&self.state.unack, of_call) {
            let own_us = self.state.unack[&id] as u64;
            if self.state.pending.contains_key(&id) {
                self.state.unack.remove(&id);
                self.forget_failures(&id);
                self.leave_turn(&id);
                self.wake(self.now());
            } else if self.state.jobs.contains_key(&id) {
                let of_call = (token_us / 1_000 - lease.as_millis() as u64) as f64;
                let due = self.turn_of(&id).map_or(of_call, |(due, _)| due);
                granted.jobs.push(self.give(&id, own_us, due));
            }
        }
        self.wake_if_through();
        Reply::Leased(granted)
    }

    fn give(&self, id: &[u8], token_us: u64, due: f64) -> Given {
        let attempts = self.attempts(id);
        Given {
            claim: Claim { id: JobId::from_redis(id.to_vec()), token_us, due },
            payload: Bytes::from(self.state.jobs[id].clone()),
            options: self.options(id),
            failures: attempts % CRASH,
            crashes: attempts / CRASH % CRASHES,
            snoozes: attempts % SUSPECT / SNOOZE,
        }
    }
}

/// A time in µs, or the one after it, whichever is even.
fn even_from(us: u64) -> u64 {
    us + us % 2
}

/// What a score in ready says: the priority, and since when the job waits there.
fn class_and_time(score: f64) -> (Priority, f64) {
    match score {
        high if high < -LAST_DUE => (Priority::High, high + RANK),
        low if low > LAST_DUE => (Priority::Low, low - RANK),
        due => (Priority::Normal, due),
    }
}
