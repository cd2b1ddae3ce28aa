//! A life of two topics: steps taken one after the other on Redis and in the model, and what they did
//! held against the model, the ledger and the invariants. Follow-ups go from either topic to either.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use duebox_harness::TestRedis;
use duebox_job::JobId;
use duebox_queue::{LeaseCall, Limits, Verdict};
use fastrand::Rng;

use crate::fixture::Fixture;
use crate::invariants;
use crate::ledger::Ledger;
use crate::model::Model;
use crate::relay::Reading;
use crate::snapshot::Snapshot;
use crate::step::{Claim, Reply, Step};

/// Stale and fresh claims that the runners remember of a topic.
const CLAIMS: usize = 10;
/// Steps shown when one fails.
const SHOWN: usize = 40;
/// Rounds after which topics without pushes must be empty.
const DRAIN_MAX: usize = 60;
/// How far a round of the drain lets time pass: further than any lease or delay.
const DRAIN_STEP: Duration = Duration::from_secs(4 * 3_600);
/// What may be left of a topic that is drained.
const KEPT: [&str; 12] = [
    "meta",
    "dead",
    "dead:jobs",
    "dead:opts",
    "dead:info",
    "done",
    "done:jobs",
    "done:info",
    "done:result",
    "holders",
    "unique",
    "inbox",
];

/// What went wrong, for people.
pub(crate) type Outcome = Result<(), String>;

/// One of the topics, as Redis, the model, the ledger and the runners know it.
pub(crate) struct Side {
    pub(crate) fixture: Fixture,
    pub(crate) model: Model,
    pub(crate) ledger: Ledger,
    pub(crate) last: Snapshot,
    pub(crate) claims: Vec<Claim>,
    pub(crate) calls: VecDeque<LeaseCall>,
    /// `per_key` has been what it is since the topic was last empty.
    steady: bool,
}

pub(crate) struct World {
    pub(crate) sides: [Side; 2],
    pub(crate) rng: Rng,
    pub(crate) serial: u64,
    /// What somebody has read of an outbox and not yet pushed.
    pub(crate) reading: Option<Reading>,
    /// Follow-ups that an ack committed, under ids that only they use.
    pub(crate) owed: BTreeSet<JobId>,
    /// Those of them that came.
    pub(crate) came: BTreeSet<JobId>,
    past: VecDeque<String>,
    /// Those of the replies that [`ANSWERS`] names which came.
    pub(crate) seen: BTreeSet<&'static str>,
}

/// Every kind of answer there is: random lives that never get one of them try too little.
pub(crate) const ANSWERS: [&str; 48] = [
    "Pushed([Pushed",
    "Pushed([Exists",
    "Pushed([Kept",
    "Pushed([Replaced",
    "Pushed([Successor",
    "Pushed([Held",
    "Pushed([Full",
    "Pushed([BadDue",
    "skipped: 1",
    "bad: 1",
    "more: true",
    "removed: 1",
    "expired: 1",
    "wait: Some(0ns)",
    "suspects: 1",
    "snoozes: 1",
    "crashes: 1",
    "failures: 1",
    "Empty(None)",
    "Empty(Some(",
    "Limited(None)",
    "Limited(Some(",
    "-> Paused",
    "-> Late",
    "Settled([Done",
    "Settled([Retry",
    "Settled([Snoozed",
    "Settled([Dead",
    "Settled([Released",
    "Settled([Superseded",
    "Settled([Cancelled",
    "Settled([Lost",
    "Extended([Some(",
    ", Retry)",
    ", Dead)",
    ", Discarded)",
    ", Superseded)",
    "Cancelled([Leased",
    "Rescheduled(Ready)",
    "Rescheduled(Blocked)",
    "Rescheduled(Retry)",
    "Rescheduled(Leased)",
    "Requeued([Ok",
    "Requeued([Exists",
    "Ticked(Done([Pushed",
    "Ticked(Taken",
    "Ticked(Early",
    "Some([Known",
];

impl World {
    pub(crate) async fn new(server: &TestRedis) -> Self {
        let fixture = Fixture::of(server).await;
        let other = fixture.beside("sms").await;
        Self {
            sides: [Side::new(fixture), Side::new(other)],
            rng: Rng::with_seed(0),
            serial: 0,
            reading: None,
            owed: BTreeSet::new(),
            came: BTreeSet::new(),
            past: VecDeque::new(),
            seen: BTreeSet::new(),
        }
    }

    /// The steps that were taken last, each with its reply.
    pub(crate) fn past(&self) -> String {
        self.past.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn tell(&mut self, what: String) {
        let answer = what.rfind("\n    -> ").map_or("", |at| &what[at..]);
        self.seen.extend(ANSWERS.into_iter().filter(|wanted| answer.contains(wanted)));
        self.past.push_back(what);
        if self.past.len() > SHOWN {
            self.past.pop_front();
        }
    }

    /// Takes a step on one topic; all must agree on what it did.
    pub(crate) async fn take(&mut self, at: usize, step: Step) -> Outcome {
        let side = &mut self.sides[at];
        let reply = step.perform(&side.fixture).await;
        let now = side.fixture.snapshot();
        let message = format!("{} {step:?}\n    -> {reply:?}", side.fixture.topic);
        self.tell(message);
        let side = &mut self.sides[at];
        if matches!(step, Step::Configure(_)) {
            side.steady = side.is_empty();
        }
        side.follow(&step, &reply, &now)?;
        side.note(&step, &reply, &now)?;
        if let (Step::Settle(claims), Reply::Settled(words)) = (&step, &reply) {
            self.owe(claims, words);
        }
        self.remember(at, &step, &reply);
        self.sides[at].last = now;
        self.sides[at].check()
    }

    /// Lets time pass for all.
    pub(crate) async fn advance(&mut self, by: Duration) -> Outcome {
        if let Some(reading) = &mut self.reading {
            reading.put_back(by);
        }
        self.take(0, Step::Advance(by)).await?;
        self.take(1, Step::Advance(by)).await
    }

    /// What the runners know after a step. Some replies are lost on the way to them.
    fn remember(&mut self, at: usize, step: &Step, reply: &Reply) {
        let lost = self.rng.u8(..5) == 0;
        let side = &mut self.sides[at];
        match (step, reply) {
            (Step::Lease(call), reply) => {
                side.calls.push_back(call.clone());
                if side.calls.len() > 3 {
                    side.calls.pop_front();
                }
                if let (Reply::Leased(granted), false) = (reply, lost) {
                    side.claims.extend(granted.jobs.iter().map(|given| given.claim.clone()));
                }
            }
            (Step::Extend(claims), Reply::Extended(tokens)) if !lost => {
                for ((claim, _), token) in claims.iter().zip(tokens) {
                    side.claims.extend(token.map(|token_us| Claim { token_us, ..claim.clone() }));
                }
            }
            // What was settled is mostly forgotten, and sometimes settled again.
            (Step::Settle(claims), _) if !lost => {
                side.claims.retain(|known| !claims.iter().any(|(claim, _)| claim == known));
            }
            (Step::Advance(by), _) => {
                for claim in &mut side.claims {
                    claim.token_us -= by.as_micros() as u64;
                    claim.due = (claim.due - by.as_millis() as f64).max(0.0);
                }
            }
            _ => {}
        }
        while side.claims.len() > CLAIMS {
            side.claims.swap_remove(self.rng.usize(..side.claims.len()));
        }
    }

    /// Pushes have ended: promote, reclaim, lease, ack and relay empty all live keys, under the
    /// limits as they are or without any.
    pub(crate) async fn drain(&mut self) -> Outcome {
        for at in 0..2 {
            self.take(at, Step::Pause(false)).await?;
            if self.rng.bool() {
                self.take(at, Step::Configure(Limits::default())).await?;
            }
        }
        for _ in 0..DRAIN_MAX {
            self.advance(DRAIN_STEP).await?;
            for at in 0..2 {
                self.relay(at).await?;
                self.drain_some(at).await?;
            }
            if self.sides.iter().all(Side::is_empty) {
                return self.assert_all_ended();
            }
        }
        let held = self.sides.each_ref().map(|side| format!("{:?}", side.last));
        Err(format!("not drained: {held:?}"))
    }

    async fn drain_some(&mut self, at: usize) -> Outcome {
        self.take(at, Step::Reclaim { delay: Duration::ZERO, discard: false }).await?;
        self.take(at, Step::Promote { n: 1_000, skip: 0, discard: false }).await?;
        self.serial += 1;
        let call = LeaseCall::new(1_000, DRAIN_STEP / 2, format!("drain:{}", self.serial));
        self.take(at, Step::Lease(call)).await?;
        let acks: Vec<_> = self.sides[at].held().into_iter().map(|c| (c, Verdict::Ack)).collect();
        if acks.is_empty() { Ok(()) } else { self.take(at, Step::Settle(acks)).await }
    }

    fn assert_all_ended(&mut self) -> Outcome {
        let missing: Vec<_> = self.owed.difference(&self.came).collect();
        if !missing.is_empty() {
            return Err(format!("follow-ups were lost: {missing:?}"));
        }
        for side in &self.sides {
            quietly(|| side.ledger.assert_all_ended())?;
            let kept = |key: &&&str| !KEPT.contains(*key) && **key != "ticks";
            let held = side.last.held();
            if let Some(key) = held.iter().find(kept) {
                return Err(format!("{key} is left of {}", side.fixture.topic));
            }
        }
        Ok(())
    }
}

impl Side {
    fn new(fixture: Fixture) -> Self {
        let last = fixture.snapshot();
        Self {
            fixture,
            model: Model::default(),
            ledger: Ledger::default(),
            last,
            claims: Vec::new(),
            calls: VecDeque::new(),
            steady: true,
        }
    }

    /// Some instant between the step's beginning and its end must explain answer and state.
    fn follow(&mut self, step: &Step, reply: &Reply, now: &Snapshot) -> Outcome {
        let (first, last) = (self.last.now_us, now.now_us);
        let mut instants = moments(first, last);
        // A new token says it to the microsecond.
        if let (Step::Lease(call), Reply::Leased(granted)) = (step, reply)
            && let Some(first_given) = granted.jobs.first()
            && !self.model.holds(&call.call_id, first)
        {
            // It is even, or the one after that: the clock was there, or one before.
            let token_us = first_given.claim.token_us;
            let at = token_us - token_us % 2 - call.lease.as_micros() as u64;
            instants = vec![at - 1, at];
        }
        let wanted = now.state();
        let mut message = String::new();
        for instant in instants.into_iter().filter(|at| (first..=last).contains(at)) {
            let mut next = self.model.clone();
            let answer = next.apply(step, instant);
            if reply.agrees(&answer) && next.state == wanted {
                self.model = next;
                return Ok(());
            }
            let difference = next.state.difference(&wanted);
            message = format!(
                "the model says {answer:?}\nRedis says {reply:?}\nmodel | Redis{difference}"
            );
        }
        Err(format!("{message}\nbefore:{:?}", self.last))
    }

    fn note(&mut self, step: &Step, reply: &Reply, now: &Snapshot) -> Outcome {
        let clock = (self.last.now_us, now.now_us);
        let (ledger, last) = (&mut self.ledger, &self.last);
        quietly(|| ledger.note(step, reply, clock, last, now))
    }

    /// The invariants, of what was read last.
    pub(crate) fn check(&self) -> Outcome {
        let lines = || self.steady.then(|| invariants::lines_violated(&self.last)).flatten();
        match invariants::violated(&self.last).or_else(lines) {
            Some(rule) => Err(format!("invariant violated: {rule}{:?}", self.last)),
            None => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        let Snapshot { jobs, unack, outbox, .. } = &self.last;
        jobs.is_empty() && unack.is_empty() && outbox.is_empty()
    }

    /// Claims on all leased jobs, of every runner.
    fn held(&self) -> Vec<Claim> {
        let claim = |(id, token): (&Vec<u8>, &f64)| Claim {
            id: JobId::from_redis(id.clone()),
            token_us: *token as u64,
            due: 0.0,
        };
        self.last.unack.iter().map(claim).collect()
    }
}

/// The moments at which what was done between two times can have been done, as far as they differ.
pub(crate) fn moments(first_us: u64, last_us: u64) -> Vec<u64> {
    let starts_of_ms = (first_us / 1_000 + 1..=last_us / 1_000).map(|ms| ms * 1_000);
    std::iter::once(first_us).chain(starts_of_ms).collect()
}

/// Runs what panics where a guarantee is broken, and says why it did.
pub(crate) fn quietly(check: impl FnOnce()) -> Outcome {
    let Err(panic) = catch_unwind(AssertUnwindSafe(check)) else { return Ok(()) };
    let why = panic.downcast_ref::<String>().cloned();
    let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
    Err(format!("a guarantee is broken: {}", why.unwrap_or_default()))
}
