//! The guarantees, checked from what the queue answered and nothing else: every push that was taken
//! has exactly one end, is never handed out early, twice at once, or with another's attempts, and a
//! valid verdict always counts.
//!
//! Unlike the model it knows no stages. It panics where a guarantee is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use duebox_queue::{
    Cancelled, Due, LeaseCall, Limits, NewJob, Pushed, Requeued, Rescheduled, Ticked,
};

use crate::model::is_bad;
use crate::snapshot::{Snapshot, gone};
use crate::step::{Given, Reply, Step, TickStep, is_ahead};

mod ends;
mod promises;

use promises::Promises;

/// A push that was taken and has not come to its end.
#[derive(Debug, Clone)]
struct Job {
    payload: Bytes,
    /// Not before this time, in ms; infinite if it must never run.
    due: f64,
    failures: u64,
    crashes: u64,
    snoozes: u64,
    /// A runner died, or lost the lease, while it held the job.
    is_suspect: bool,
    /// As it was pushed, or handed out; not known of a plain push.
    options: Option<Options>,
    /// The number of its push, if it was due at once and no runner has had it.
    arrived: Option<u64>,
    /// It was handed out before, came back, and has its key's turn while it waits.
    has_turn: bool,
}

/// What is known of an id.
#[derive(Debug, Clone, Default)]
struct Life {
    /// The newest push, if no runner has it.
    waiting: Option<Job>,
    /// What a runner has, under which token, and whether its payload was taken away.
    running: Option<(u64, Job, bool)>,
    /// The payload it died with.
    dead: Option<Bytes>,
    /// Until when a push of it is refused, in ms.
    held_until: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    lives: BTreeMap<JobId, Life>,
    promises: Promises,
    /// Pushes so far.
    pushes: u64,
    /// The earliest and the latest that Redis' clock can have shown at the step, in ms.
    clock: (f64, f64),
}

impl Ledger {
    /// Takes note of a step and its reply, and of what the topic held before and after it.
    pub(crate) fn note(
        &mut self,
        step: &Step,
        reply: &Reply,
        clock_us: (u64, u64),
        before: &Snapshot,
        after: &Snapshot,
    ) {
        self.clock = ((clock_us.0 / 1_000) as f64, (clock_us.1 / 1_000) as f64);
        match (step, reply) {
            (Step::Push(_, jobs), Reply::Pushed(words)) => {
                jobs.iter().zip(words).for_each(|(job, word)| self.pushed(job, *word));
            }
            (Step::Plain { id, payload, due }, _) => {
                let due = if is_bad(*due) { f64::INFINITY } else { *due };
                self.life(id).waiting = Some(Job::new(payload, due));
            }
            (Step::Promote { discard, .. }, Reply::Promoted(promoted)) => {
                self.promoted(*discard, promoted.bad, before, after);
            }
            (Step::Lease(call), Reply::Leased(granted)) => {
                self.leased(call, &granted.jobs);
                let expired = self.expired(call, before, after);
                assert_eq!(expired, granted.expired, "expired jobs and no others are ended");
                self.given_up(&gone(&before.unack, &after.unack));
            }
            (Step::Settle(claims), Reply::Settled(words)) => {
                claims
                    .iter()
                    .zip(words)
                    .for_each(|((claim, verdict), word)| self.settled(claim, verdict, *word));
            }
            (Step::Extend(claims), Reply::Extended(tokens)) => {
                let known = self.lives.clone();
                claims
                    .iter()
                    .zip(tokens)
                    .for_each(|((claim, _), new)| self.extended(&known, claim, *new));
            }
            (Step::Reclaim { delay, .. }, Reply::Reclaimed(ended)) => {
                ended.iter().for_each(|(id, word)| self.reclaimed(id, *word, *delay));
            }
            (Step::Cancel(ids), Reply::Cancelled(words)) => {
                ids.iter().zip(words).for_each(|(id, word)| self.cancelled(id, *word));
            }
            (Step::Reschedule(id, due), Reply::Rescheduled(word)) => {
                self.rescheduled(id, *due, *word)
            }
            (Step::Requeue(ids), Reply::Requeued(words)) => {
                ids.iter().zip(words).for_each(|(id, word)| self.requeued(id, *word));
            }
            (Step::Configure(rules), _) => self.configured(rules),
            (Step::Tick(tick), Reply::Ticked(Ticked::Done(words))) => {
                self.ticked(tick, words);
            }
            (Step::Advance(by), _) => self.put_back(*by),
            _ => {}
        }
    }

    /// Ends the jobs whose due times are invalid.
    fn promoted(&mut self, discard: bool, bad: u64, before: &Snapshot, after: &Snapshot) {
        let buried = gone(&before.pending, &after.pending);
        let ended = buried.iter().filter(|id| self.bad_due(id, discard)).count();
        assert_eq!(ended as u64, bad, "bad due times and no others are buried");
    }

    fn configured(&mut self, rules: &Limits) {
        let idle = self.lives.values().all(Life::is_over);
        self.promises.configure(rules, idle);
    }

    fn ticked(&mut self, tick: &TickStep, words: &[Pushed]) {
        for (time, _) in tick.times.iter().zip(words).filter(|(_, w)| **w == Pushed::Pushed) {
            let id = JobId::new(format!("{}@{time}", tick.schedule)).unwrap();
            self.arrived(&id, &tick.payload, *time as f64, &Options::default());
        }
    }

    /// Every push has come to its end, and no runner has any.
    pub(crate) fn assert_all_ended(&self) {
        for (id, life) in &self.lives {
            assert!(life.waiting.is_none(), "{id}: a push was lost: {life:?}");
            assert!(life.running.is_none(), "{id}: a lease was lost: {life:?}");
        }
    }

    /// A job came from another topic, or from a schedule.
    pub(crate) fn arrived(&mut self, id: &JobId, payload: &Bytes, due: f64, options: &Options) {
        let life = self.life(id);
        let leased = life.running.as_ref().is_some_and(|(_, _, gone)| !gone);
        assert!(life.waiting.is_none() && !leased, "{id}: it is alive, and was pushed again");
        life.waiting = Some(Job { options: Some(options.clone()), ..Job::new(payload, due) });
    }

    fn life(&mut self, id: &JobId) -> &mut Life {
        self.lives.entry(id.clone()).or_default()
    }

    fn not_before(&self, due: Due) -> f64 {
        match due {
            Due::Now => self.clock.0,
            Due::In(delay) => self.clock.0 + delay.as_millis() as f64,
            Due::At(ms) => ms as f64,
        }
    }

    fn pushed(&mut self, job: &NewJob, word: Pushed) {
        let (due, clock) = (self.not_before(job.due), self.clock);
        self.pushes += 1;
        let number = self.pushes;
        let may_be_full = self.promises.rules.max_pending.is_some();
        let life = self.life(&job.id);
        let cancelled = life.running.as_ref().is_some_and(|(_, _, gone)| *gone);
        let live = life.waiting.is_some() || (life.running.is_some() && !cancelled);
        let is_held = !live && life.held_until > clock.1;
        match word {
            Pushed::Pushed => assert!(life.is_over() && !is_held, "{}: not fresh", job.id),
            Pushed::Replaced => assert!(life.waiting.is_some() && life.running.is_none()),
            Pushed::Successor => assert!(life.running.is_some() && !is_held, "{}", job.id),
            Pushed::Exists => assert!(live, "{}: refused, and not alive", job.id),
            Pushed::Kept => assert!(live || life.held_until > clock.0, "{}: not alive", job.id),
            Pushed::Held => assert!(!live && life.held_until > clock.0, "{}: not held", job.id),
            Pushed::Full => assert!(may_be_full && life.waiting.is_none(), "{}", job.id),
            Pushed::BadDue => {}
        }
        if let Pushed::Pushed | Pushed::Replaced | Pushed::Successor = word {
            let options = Some(job.options.clone());
            // The second of a batch may have the place of the first.
            let arrived = (word == Pushed::Pushed && job.due == Due::Now).then_some(number);
            life.waiting = Some(Job { options, arrived, ..Job::new(&job.payload, due) });
        }
    }

    fn bad_due(&mut self, id: &JobId, discard: bool) -> bool {
        let life = self.life(id);
        let Some(job) = life.waiting.take_if(|job| job.due.is_infinite()) else { return false };
        if !discard {
            life.dead = Some(job.payload);
        }
        if let Some((_, _, gone)) = &mut life.running {
            *gone = true;
        }
        true
    }

    fn leased(&mut self, call: &LeaseCall, given: &[Given]) {
        let latest = self.clock.1;
        let at_once = given.iter().filter(|given| !is_ahead(given.claim.token_us)).count();
        assert!(at_once <= call.at_once, "more jobs are to start at once than the call says");
        let mut started = Vec::new();
        for Given { claim, payload, failures, crashes, snoozes, options } in given {
            let life = self.lives.entry(claim.id.clone()).or_default();
            if let Some((token, job, gone)) = &life.running {
                assert_eq!(*token, claim.token_us, "{}: leased twice", claim.id);
                assert_eq!(job.payload, payload, "{}: not the payload of before", claim.id);
                assert!(!gone && life.waiting.is_none(), "{}: given again, though over", claim.id);
                continue;
            }
            let mut job =
                life.waiting.take().unwrap_or_else(|| panic!("{}: from nowhere", claim.id));
            assert_eq!(job.payload, payload, "{}: not the newest push", claim.id);
            assert!(job.due <= latest, "{}: {} ms early", claim.id, job.due - latest);
            let at_once = !is_ahead(claim.token_us);
            assert!(at_once || !job.is_suspect, "{}: a suspect was leased ahead", claim.id);
            let spent = (job.failures, job.crashes, job.snoozes);
            assert_eq!((*failures, *crashes, *snoozes), spent, "{}", claim.id);
            let known = job.options.replace(options.clone());
            assert!(known.is_none_or(|known| known == *options), "{}: not its options", claim.id);
            self.promises.turn_is_free(&self.lives, options.key());
            self.promises.is_next(&self.lives, options.key(), job.arrived.take());
            let life = self.lives.entry(claim.id.clone()).or_default();
            life.running = Some((claim.token_us, job, false));
            let even = claim.token_us - claim.token_us % 2;
            started.push(even as f64 - call.lease.as_micros() as f64);
        }
        let running = self.lives.values().filter(|life| life.running.is_some()).count();
        self.promises.may_start(&started, running);
    }

    /// Ends the jobs that a lease call found too old, and says how many.
    fn expired(&mut self, call: &LeaseCall, before: &Snapshot, after: &Snapshot) -> u64 {
        let latest = self.clock.1;
        let ttl_of_topic = self.promises.rules.ttl.unwrap_or_default();
        let ended: Vec<JobId> = gone(&before.ready, &after.ready)
            .into_iter()
            .filter(|id| !after.jobs.contains_key(id.as_bytes()))
            .collect();
        for id in &ended {
            let life = self.life(id);
            let job = life.waiting.take().unwrap_or_else(|| panic!("{id}: from nowhere"));
            assert_eq!((job.failures, job.crashes, job.snoozes), (0, 0, 0), "{id}: it was started");
            if let Some(options) = &job.options {
                let ttl = options.ttl().unwrap_or(ttl_of_topic).as_millis() as f64;
                assert!(ttl > 0.0 && job.due + ttl < latest, "{id}: it expired early");
            }
            life.dead = call.expired_info.is_some().then_some(job.payload).or(life.dead.take());
        }
        ended.len() as u64
    }

    /// Leases that a repeated call ended, because a newer push waits.
    fn given_up(&mut self, ids: &[JobId]) {
        for id in ids {
            let life = self.life(id);
            assert!(life.waiting.is_some(), "{id}: a lease ended without a newer push");
            assert!(life.running.take().is_some(), "{id}: no lease to end");
        }
    }

    fn cancelled(&mut self, id: &JobId, word: Cancelled) {
        let life = self.life(id);
        let waited = life.waiting.take().is_some();
        let expected = match &mut life.running {
            Some((_, _, gone)) => {
                *gone = true;
                Cancelled::Leased
            }
            None if waited => Cancelled::Cancelled,
            None => Cancelled::None,
        };
        assert_eq!(word, expected, "{id}");
    }

    fn rescheduled(&mut self, id: &JobId, due: Due, word: Rescheduled) {
        let due = self.not_before(due);
        let life = self.life(id);
        match word {
            Rescheduled::Pending
            | Rescheduled::Ready
            | Rescheduled::Blocked
            | Rescheduled::Retry => {
                let job = life.waiting.as_mut().unwrap_or_else(|| panic!("{id}: nothing waits"));
                job.due = due;
                job.arrived = None;
                job.has_turn &= word != Rescheduled::Pending;
            }
            Rescheduled::Leased => assert!(life.waiting.is_none() && life.running.is_some()),
            Rescheduled::None => assert!(life.waiting.is_none() && life.running.is_none()),
            Rescheduled::BadDue => {}
        }
    }

    fn requeued(&mut self, id: &JobId, word: Requeued) {
        let life = self.life(id);
        if word == Requeued::Ok {
            assert!(life.waiting.is_none() && life.running.is_none(), "{id}: it lives");
            let payload = life.dead.take().unwrap_or_else(|| panic!("{id}: it is not dead"));
            life.waiting = Some(Job::new(&payload, 0.0));
        }
    }

    fn put_back(&mut self, by: Duration) {
        self.promises.put_back(by);
        for life in self.lives.values_mut() {
            life.held_until -= by.as_millis() as f64;
            if let Some(job) = &mut life.waiting {
                job.due -= by.as_millis() as f64;
            }
            if let Some((token, job, _)) = &mut life.running {
                *token -= by.as_micros() as u64;
                job.due -= by.as_millis() as f64;
            }
        }
    }
}

impl Life {
    fn is_over(&self) -> bool {
        self.waiting.is_none() && self.running.is_none()
    }
}

impl Job {
    fn key(&self) -> Option<&str> {
        self.options.as_ref()?.key()
    }

    fn new(payload: &Bytes, due: f64) -> Self {
        Self {
            payload: payload.clone(),
            due,
            failures: 0,
            crashes: 0,
            snoozes: 0,
            is_suspect: false,
            options: None,
            arrived: None,
            has_turn: false,
        }
    }
}
