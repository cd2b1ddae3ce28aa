//! Random lives of a few jobs: every verb, plain producers, lost replies and time, step by step
//! against the model, the ledger and the invariants.
//!
//! All delays are whole hours and time moves by whole hours, so that no due time is ever near the
//! moment at which the test happens to run. `DUEBOX_MODEL_STEPS` sets how many steps in all
//! (default 20,000), `DUEBOX_MODEL_SEED` runs one seed alone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use duebox_queue::{Due, IfExists, LeaseCall, NewJob, Verdict};
use fastrand::Rng;

use crate::ground::Ground;
use crate::invariants;
use crate::ledger::Ledger;
use crate::model::Model;
use crate::snapshot::Snapshot;
use crate::step::{Claim, Reply, Step};

const HOUR_MS: u64 = 3_600_000;
const SEEDS: [u64; 7] = [1, 2, 3, 5, 8, 13, 21];
const STEPS: usize = 20_000;
/// Steps between two drains.
const LIFE: usize = 120;
/// Stale and fresh claims that the runners remember.
const CLAIMS: usize = 10;
/// Steps shown when one fails.
const SHOWN: usize = 25;
/// Rounds after which a topic without pushes must be empty.
const DRAIN_MAX: usize = 60;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and no whole number")))
}

#[tokio::test]
async fn random_lives_follow_the_model() {
    let steps = setting("DUEBOX_MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    if let Some(seed) = setting("DUEBOX_MODEL_SEED") {
        live(seed, steps).await;
        return;
    }
    // One that nobody has tried before, so that the suite learns.
    let fresh = fastrand::u64(..);
    for seed in SEEDS.into_iter().chain([fresh]) {
        live(seed, steps / (SEEDS.len() + 1)).await;
    }
}

async fn live(seed: u64, steps: usize) {
    let mut world = World::new(seed).await;
    for number in 1..=steps {
        let step = world.choose();
        world.take(step).await;
        if number % LIFE == 0 || number == steps {
            world.drain().await;
        }
    }
}

struct World {
    ground: Ground,
    seed: u64,
    rng: Rng,
    model: Model,
    ledger: Ledger,
    last: Snapshot,
    claims: Vec<Claim>,
    calls: VecDeque<LeaseCall>,
    serial: u64,
    past: VecDeque<String>,
}

impl World {
    async fn new(seed: u64) -> Self {
        let ground = Ground::new().await;
        let last = ground.snapshot();
        Self {
            ground,
            seed,
            rng: Rng::with_seed(seed),
            model: Model::default(),
            ledger: Ledger::default(),
            last,
            claims: Vec::new(),
            calls: VecDeque::new(),
            serial: 0,
            past: VecDeque::new(),
        }
    }

    // ---- one step, and whether all agree on it

    async fn take(&mut self, step: Step) {
        let reply = step.perform(&self.ground).await;
        let now = self.ground.snapshot();
        self.past.push_back(format!("{step:?}\n    -> {reply:?}"));
        if self.past.len() > SHOWN {
            self.past.pop_front();
        }
        if let Some(rule) = invariants::violated(&now) {
            self.fail(&format!("invariant violated: {rule}{now:?}"));
        }
        self.follow(&step, &reply, &now);
        self.note(&step, &reply, &now);
        self.remember(&step, &reply);
        self.last = now;
    }

    /// Some instant between the step's beginning and its end must explain answer and state.
    fn follow(&mut self, step: &Step, reply: &Reply, now: &Snapshot) {
        let (first, last) = (self.last.now_us, now.now_us);
        let mut instants: Vec<u64> = std::iter::once(first)
            .chain((first / 1_000 + 1..=last / 1_000).map(|ms| ms * 1_000))
            .collect();
        // A new token says it to the microsecond.
        if let (Step::Lease(call), Reply::Leased(granted)) = (step, reply)
            && let Some(first_given) = granted.jobs.first()
            && !self.model.holds(&call.call_id, first)
        {
            instants = vec![first_given.claim.token_us - call.lease.as_micros() as u64];
        }
        let wanted = now.state();
        let mut expected = None;
        for instant in instants.into_iter().filter(|at| (first..=last).contains(at)) {
            let mut next = self.model.clone();
            let answer = next.apply(step, instant);
            if reply.agrees(&answer) && next.state == wanted {
                self.model = next;
                return;
            }
            expected = Some((answer, next.state));
        }
        self.fail(&format!("the model says {expected:?}\nRedis says {reply:?} {wanted:?}"));
    }

    fn note(&mut self, step: &Step, reply: &Reply, now: &Snapshot) {
        let (before, clock) = (&self.last, (self.last.now_us, now.now_us));
        let ledger = &mut self.ledger;
        let noted = catch_unwind(AssertUnwindSafe(|| ledger.note(step, reply, clock, before, now)));
        if noted.is_err() {
            self.fail("a guarantee is broken; see above");
        }
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        let past = self.past.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        panic!("seed {}: the last steps were\n{past}\n{why}", self.seed);
    }

    /// What the runners know after a step. Some replies are lost on the way to them.
    fn remember(&mut self, step: &Step, reply: &Reply) {
        let lost = self.rng.u8(..5) == 0;
        match (step, reply) {
            (Step::Lease(call), reply) => {
                self.calls.push_back(call.clone());
                if self.calls.len() > 3 {
                    self.calls.pop_front();
                }
                if let (Reply::Leased(granted), false) = (reply, lost) {
                    self.claims.extend(granted.jobs.iter().map(|given| given.claim.clone()));
                }
            }
            (Step::Extend(claims), Reply::Extended(tokens)) if !lost => {
                for ((claim, _), token) in claims.iter().zip(tokens) {
                    self.claims.extend(token.map(|token_us| Claim { token_us, ..claim.clone() }));
                }
            }
            // What was settled is mostly forgotten, and sometimes settled again.
            (Step::Settle(claims), _) if !lost => {
                self.claims.retain(|known| !claims.iter().any(|(claim, _)| claim == known));
            }
            (Step::Advance(by), _) => {
                for claim in &mut self.claims {
                    claim.token_us -= by.as_micros() as u64;
                }
            }
            _ => {}
        }
        while self.claims.len() > CLAIMS {
            let forgotten = self.rng.usize(..self.claims.len());
            self.claims.swap_remove(forgotten);
        }
    }

    // ---- nobody pushes any more

    /// Promote, reclaim, lease and ack empty all live keys.
    async fn drain(&mut self) {
        self.take(Step::Pause(false)).await;
        for _ in 0..DRAIN_MAX {
            self.take(Step::Advance(hours(4))).await;
            self.take(Step::Reclaim { delay: Duration::ZERO, discard: false }).await;
            self.take(Step::Promote { n: 1_000, skip: 0, discard: false }).await;
            let call = self.new_call(1_000);
            self.take(Step::Lease(call)).await;
            let acks: Vec<_> = self.held().into_iter().map(|claim| (claim, Verdict::Ack)).collect();
            if !acks.is_empty() {
                self.take(Step::Settle(acks)).await;
            }
            let left: Vec<String> = self.ground.keys();
            if left.iter().all(|key| key.contains(":dead") || key.ends_with(":holders")) {
                self.ledger.assert_all_ended();
                return;
            }
        }
        self.fail(&format!("not drained: {:?}", self.ground.keys()));
    }

    /// Claims on all that is leased now, whoever leased it.
    fn held(&self) -> Vec<Claim> {
        let claim = |(id, token): (&Vec<u8>, &f64)| Claim {
            id: JobId::from_redis(id.clone()),
            token_us: *token as u64,
            due_ms: 0,
        };
        self.last.unack.iter().map(claim).collect()
    }

    // ---- what comes next

    fn choose(&mut self) -> Step {
        match self.rng.u8(..100) {
            0..=17 => self.push(),
            18..=26 => self.plain(),
            27..=38 => Step::Promote {
                discard: false,
                n: self.rng.usize(1..6),
                skip: if self.rng.u8(..4) == 0 { self.rng.u64(1..3) } else { 0 },
            },
            39..=55 => self.lease(),
            56..=73 => self.settle(),
            74..=78 => {
                Step::Extend(self.some_claims().into_iter().map(|c| (c, hours(1))).collect())
            }
            79..=82 => Step::Reclaim { delay: self.hours_up_to(2), discard: false },
            83..=85 => Step::Cancel(self.some_ids()),
            86..=88 => {
                let due = self.due();
                Step::Reschedule(self.id(), due)
            }
            89..=90 => Step::Requeue(self.some_ids()),
            91 => Step::Prune(self.some_ids()),
            92 => Step::PruneOlder(self.hours_up_to(3)),
            93 => Step::PruneAbove(self.rng.u64(..3)),
            94 => Step::Pause(self.rng.u8(..3) == 0),
            _ => Step::Advance(hours(self.rng.u64(1..3))),
        }
    }

    fn push(&mut self) -> Step {
        let mode = [IfExists::Reject, IfExists::Keep, IfExists::Replace, IfExists::Replace];
        let mode = mode[self.rng.usize(..mode.len())];
        let count = if self.rng.u8(..3) == 0 { self.rng.usize(2..5) } else { 1 };
        Step::Push(mode, (0..count).map(|_| self.new_job()).collect())
    }

    fn new_job(&mut self) -> NewJob {
        let options = match self.rng.u32(..4) {
            0 => Options::default().with_max_attempts(self.rng.u32(1..5)),
            _ => Options::default(),
        };
        NewJob { id: self.id(), due: self.due(), payload: self.payload(), options }
    }

    fn plain(&mut self) -> Step {
        let (now, hours) = ((self.last.now_us / 1_000) as f64, self.rng.u64(..4) * HOUR_MS);
        let due = match self.rng.u8(..10) {
            0..=2 => 0.0,
            3..=5 => now + hours as f64,
            6 | 7 => now - hours as f64,
            _ => {
                let none = [5.0, (now / 1_000.0).floor(), now * 1_000.0, f64::INFINITY, -3.0];
                none[self.rng.usize(..none.len())]
            }
        };
        Step::Plain { id: self.id(), payload: self.payload(), due }
    }

    fn lease(&mut self) -> Step {
        if !self.calls.is_empty() && self.rng.u8(..4) == 0 {
            return Step::Lease(self.calls[self.rng.usize(..self.calls.len())].clone());
        }
        let jobs = self.rng.usize(1..5);
        Step::Lease(self.new_call(jobs))
    }

    fn new_call(&mut self, jobs: usize) -> LeaseCall {
        self.serial += 1;
        LeaseCall::new(jobs, hours(self.rng.u64(1..4)), format!("c{}", self.serial))
    }

    fn settle(&mut self) -> Step {
        Step::Settle(self.some_claims().into_iter().map(|claim| (claim, self.verdict())).collect())
    }

    fn verdict(&mut self) -> Verdict {
        self.serial += 1;
        let info = format!(r#"{{"reason":"{}"}}"#, self.serial);
        match self.rng.u8(..10) {
            0..=2 => Verdict::Ack,
            3..=5 => {
                let (delay, max_attempts) = (self.hours_up_to(3), self.rng.u32(1..5));
                Verdict::Nack { delay, max_attempts, info }
            }
            6 => Verdict::Drop { info },
            _ => Verdict::Release { delay: self.hours_up_to(2) },
        }
    }

    /// One to three claims that are known, the same twice now and then, or one that nobody has.
    fn some_claims(&mut self) -> Vec<Claim> {
        if self.claims.is_empty() {
            return vec![Claim { id: self.id(), token_us: self.last.now_us, due_ms: 0 }];
        }
        let count = self.rng.usize(1..4);
        (0..count).map(|_| self.claims[self.rng.usize(..self.claims.len())].clone()).collect()
    }

    fn id(&mut self) -> JobId {
        JobId::new(["a", "b", "c", "d"][self.rng.usize(..4)]).unwrap()
    }

    fn some_ids(&mut self) -> Vec<JobId> {
        let count = self.rng.usize(1..3);
        (0..count).map(|_| self.id()).collect()
    }

    fn payload(&mut self) -> Bytes {
        self.serial += 1;
        Bytes::from(self.serial.to_string())
    }

    fn due(&mut self) -> Due {
        let now = self.last.now_us / 1_000;
        match self.rng.u8(..10) {
            0..=3 => Due::Now,
            4..=6 => Due::In(self.hours_up_to(4)),
            7 => Due::At(now + self.rng.u64(1..4) * HOUR_MS),
            8 => Due::At(now - self.rng.u64(..4) * HOUR_MS),
            _ => Due::At([1, 7, now / 1_000, now * 1_000][self.rng.usize(..4)]),
        }
    }

    fn hours_up_to(&mut self, most: u64) -> Duration {
        hours(self.rng.u64(..=most))
    }
}

fn hours(count: u64) -> Duration {
    Duration::from_millis(count * HOUR_MS)
}
