//! Every trace of a few steps, in the model alone: two runners' worth of claims, lost replies,
//! crashes and plain producers between any two steps. The invariants and the ledger are checked in
//! every state, and one state in twenty is drained.
//!
//! The model is what the random lives hold against Redis, so that what is explored here holds there.
//! `DUEBOX_EXPLORE_STEPS` makes the traces longer than by default.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options, Rate};
use duebox_queue::{Due, Finish, IfExists, LeaseCall, Limits, NewJob, Verdict};

use crate::invariants;
use crate::ledger::Ledger;
use crate::model::Model;
use crate::step::{Claim, Reply, Step};

const HOUR: Duration = Duration::from_secs(3_600);
const NOW_US: u64 = 1_795_000_000_000_000;
/// Digits of a token.
const TOKEN_LEN: usize = 16;
/// Claims that runners hold at once, stale ones included.
const CLAIMS: usize = 2;
/// One state in so many is drained.
const DRAINED: usize = 20;
const DRAIN_ROUNDS: usize = 8;

/// What may be pushed in a trace, and by which commands.
struct Scope {
    ids: &'static [&'static str],
    pushes: usize,
    plain_dues: &'static [f64],
    steps: usize,
    rules: Limits,
    /// The key that all jobs but plain ones have.
    key: Option<&'static str>,
    /// Of the two jobs that a lease call takes, how many start at once.
    at_once: &'static [usize],
    /// Verdicts other than ack, nack, drop and release.
    verdicts: fn() -> Vec<Verdict>,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            ids: &["a"],
            pushes: 3,
            plain_dues: &[0.0],
            steps: 7,
            rules: Limits::default(),
            key: None,
            at_once: &[2],
            verdicts: Vec::new,
        }
    }
}

#[test]
fn one_id_and_three_pushes() {
    let plain_dues = &[0.0, 1_795_003_600_000.0];
    explore(&Scope { plain_dues, ..Scope::default() });
}

#[test]
fn two_ids_and_two_pushes() {
    explore(&Scope { ids: &["a", "b"], pushes: 2, steps: 6, ..Scope::default() });
}

#[test]
fn one_id_and_odd_due_times() {
    let plain_dues = &[0.0, 5.0, f64::INFINITY];
    explore(&Scope { plain_dues, ..Scope::default() });
}

/// Runners die with jobs that they had leased ahead: such a job is not buried before it has started.
#[test]
fn two_ids_leased_ahead() {
    let (ids, pushes, at_once) = (&["a", "b"], 2, &[0, 1]);
    explore(&Scope { ids, pushes, at_once, steps: 6, ..Scope::default() });
}

/// One job of a key at a time, and those that wait for it; a job in retry keeps its permit.
#[test]
fn two_ids_of_one_key_in_strict_order() {
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    let (ids, pushes, key) = (&["a", "b"], 3, Some("k"));
    explore(&Scope { ids, pushes, key, rules, steps: 5, ..Scope::default() });
}

#[test]
fn two_ids_of_one_key_in_relaxed_order() {
    let rules = Limits { per_key: NonZero::new(1), relaxed: true, ..Limits::default() };
    let (ids, pushes, key) = (&["a", "b"], 3, Some("k"));
    explore(&Scope { ids, pushes, key, rules, steps: 5, ..Scope::default() });
}

/// Acks that hold the id, snoozes, a ttl and a rate.
#[test]
fn one_id_that_is_held_put_off_and_expires() {
    let rate = Rate::parse("1/h").ok();
    let rules = Limits {
        ttl: Some(HOUR),
        rate,
        burst: NonZero::new(1),
        max_running: NonZero::new(1),
        ..Limits::default()
    };
    let verdicts = || {
        let info = || "{}".to_owned();
        let finish = Finish { unique_for: HOUR, info: Some(info()), ..Finish::default() };
        let (delay, nack_delay) = (HOUR, HOUR);
        vec![
            Verdict::Finish(finish),
            Verdict::Snooze { delay, max_snoozes: 1, nack_delay, max_attempts: 2, info: info() },
        ]
    };
    explore(&Scope { rules, verdicts, steps: 6, ..Scope::default() });
}

#[expect(clippy::print_stdout, reason = "a test's reader may ask how much was explored")]
fn explore(scope: &Scope) {
    let steps = std::env::var("DUEBOX_EXPLORE_STEPS").ok();
    let steps = steps.map_or(scope.steps, |steps| steps.parse().unwrap());
    let mut search = Search { scope, seen: HashMap::new(), path: Vec::new(), drained: 0 };
    let begun = search.take(&World::default(), Step::Configure(scope.rules.clone()), false);
    search.from(&begun, steps);
    println!("{} states within {steps} steps, {} drained", search.seen.len(), search.drained);
    assert!(search.seen.len() > 1_000 && search.drained > 50);
}

struct Search<'a> {
    scope: &'a Scope,
    /// How many more steps were taken from each state.
    seen: HashMap<u64, usize>,
    path: Vec<Step>,
    drained: usize,
}

impl Search<'_> {
    fn from(&mut self, world: &World, left: usize) {
        let key = world.key();
        let known = self.seen.get(&key).copied();
        if known.is_some_and(|taken| taken >= left) {
            return;
        }
        self.seen.insert(key, left);
        if known.is_none() && self.seen.len().is_multiple_of(DRAINED) {
            self.drained += 1;
            self.drain(world.clone());
        }
        if left == 0 {
            return;
        }
        for (step, lost) in world.moves(self.scope, self.path.len()) {
            let next = self.take(world, step, lost);
            self.from(&next, left - 1);
            self.path.pop();
        }
    }

    /// Takes a step, which stays on the path; its reply reaches the runner or is lost.
    fn take(&mut self, world: &World, step: Step, lost: bool) -> World {
        let mut next = world.clone();
        // Each step two microseconds later, so that no two tokens are equal.
        let now_us = NOW_US + 2 * self.path.len() as u64;
        self.path.push(step);
        let (step, path) = (&self.path[self.path.len() - 1], &self.path);
        let reply = next.model.apply(step, now_us);
        let (before, after) = (&world.model.state, &next.model.state);
        let lines = || invariants::lines_violated(after);
        if let Some(rule) = invariants::violated(after).or_else(lines) {
            panic!("{rule}: {after:?}\nafter {path:#?}");
        }
        let (ledger, clock) = (&mut next.ledger, (now_us, now_us));
        let noted =
            catch_unwind(AssertUnwindSafe(|| ledger.note(step, &reply, clock, before, after)));
        assert!(noted.is_ok(), "a guarantee is broken (see above) after {path:#?}");
        next.remember(step, &reply, lost);
        next
    }

    fn drain(&mut self, mut world: World) {
        let length = self.path.len();
        for _ in 0..DRAIN_ROUNDS {
            for step in [
                Step::Advance(HOUR * 2),
                Step::Reclaim { delay: Duration::ZERO, discard: false },
                Step::Promote { n: 9, skip: 0, discard: false },
            ] {
                world = self.take(&world, step, false);
            }
            world = self.take(&world, new_call(self.path.len(), 2), false);
            let held = world.claims.iter().map(|claim| (claim.clone(), Verdict::Ack)).collect();
            world = self.take(&world, Step::Settle(held), false);
        }
        world.ledger.assert_all_ended();
        let left = &world.model.state;
        assert!(left.jobs.is_empty() && left.opts.is_empty() && left.attempts.is_empty());
        self.path.truncate(length);
    }
}

#[derive(Clone, Default)]
struct World {
    model: Model,
    ledger: Ledger,
    claims: Vec<Claim>,
    /// The last lease call, repeated as after a lost reply.
    call: Option<LeaseCall>,
    pushes: usize,
}

impl World {
    /// Every step that may come next, and whether its reply is lost.
    fn moves(&self, scope: &Scope, taken: usize) -> Vec<(Step, bool)> {
        let mut moves = Vec::new();
        for id in scope.ids {
            let id = JobId::new(*id).unwrap();
            if self.pushes < scope.pushes {
                self.push_moves(scope, &id, &mut moves);
            }
            moves.push((Step::Cancel(vec![id.clone()]), false));
            moves.push((Step::Reschedule(id.clone(), Due::Now), false));
            moves.push((Step::Reschedule(id.clone(), Due::In(HOUR)), false));
            moves.push((Step::Requeue(vec![id]), false));
        }
        moves.push((Step::Promote { n: 2, skip: 0, discard: false }, false));
        moves.push((Step::Reclaim { delay: HOUR, discard: false }, false));
        moves.push((Step::Advance(HOUR), false));
        for lost in [false, true] {
            let calls = scope.at_once.iter().map(|at_once| (new_call(taken, *at_once), lost));
            moves.extend(calls);
            moves.extend(self.call.clone().map(|call| (Step::Lease(call), lost)));
        }
        for claim in &self.claims {
            Self::claim_moves(scope, claim, &mut moves);
        }
        moves
    }

    fn push_moves(&self, scope: &Scope, id: &JobId, moves: &mut Vec<(Step, bool)>) {
        let payload = Bytes::from(format!("p{}", self.pushes));
        for (mode, due) in [
            (IfExists::Keep, Due::Now),
            (IfExists::Replace, Due::Now),
            (IfExists::Replace, Due::In(HOUR)),
        ] {
            let options = Options::default();
            let options = scope.key.map_or(Ok(options.clone()), |key| options.with_key(key));
            let options = options.unwrap();
            let job = NewJob { id: id.clone(), due, payload: payload.clone(), options };
            moves.push((Step::Push(mode, vec![job]), false));
        }
        for due in scope.plain_dues {
            let (id, payload) = (id.clone(), payload.clone());
            moves.push((Step::Plain { id, payload, due: *due }, false));
        }
    }

    fn claim_moves(scope: &Scope, claim: &Claim, moves: &mut Vec<(Step, bool)>) {
        let info = || "{}".to_owned();
        for verdict in [
            Verdict::Ack,
            Verdict::Nack { delay: HOUR, max_attempts: 2, info: info() },
            Verdict::Drop { info: info() },
            Verdict::Release { delay: Duration::ZERO },
        ] {
            moves.push((Step::Settle(vec![(claim.clone(), verdict)]), false));
        }
        for verdict in (scope.verdicts)() {
            moves.push((Step::Settle(vec![(claim.clone(), verdict)]), false));
        }
        let release = Verdict::Release { delay: HOUR };
        moves.push((Step::Settle(vec![(claim.clone(), release)]), true));
        for lost in [false, true] {
            moves.push((Step::Extend(vec![(claim.clone(), HOUR)]), lost));
        }
    }

    fn remember(&mut self, step: &Step, reply: &Reply, lost: bool) {
        match (step, reply) {
            (Step::Push(..) | Step::Plain { .. }, _) => self.pushes += 1,
            (Step::Lease(call), reply) => {
                self.call = lost.then(|| call.clone());
                if let (Reply::Leased(granted), false) = (reply, lost) {
                    self.claims.extend(granted.jobs.iter().map(|given| given.claim.clone()));
                }
            }
            (Step::Settle(claims), _) if !lost => {
                self.claims.retain(|known| !claims.iter().any(|(claim, _)| claim == known));
            }
            (Step::Extend(claims), Reply::Extended(tokens)) if !lost => {
                for ((old, _), token) in claims.iter().zip(tokens) {
                    self.claims.retain(|known| known != old);
                    self.claims.extend(token.map(|token_us| Claim { token_us, ..old.clone() }));
                }
            }
            (Step::Advance(by), _) => {
                self.claims.iter_mut().for_each(|claim| claim.token_us -= by.as_micros() as u64);
            }
            _ => {}
        }
        let over = self.claims.len().saturating_sub(CLAIMS);
        self.claims.drain(..over);
    }

    /// The same for worlds that differ in nothing but when their leases were made.
    fn key(&self) -> u64 {
        let Self { model, ledger, claims, call, pushes } = self;
        let shown = format!("{:?} {ledger:?} {claims:?} {call:?} {pushes}", model.state);
        let mut hasher = DefaultHasher::new();
        without_moments(&shown).hash(&mut hasher);
        hasher.finish()
    }
}

/// A lease call unlike any before it in the trace: its id looks like a token of its moment.
fn new_call(taken: usize, at_once: usize) -> Step {
    let call_id = (NOW_US + 2 * taken as u64).to_string();
    Step::Lease(LeaseCall { at_once, ..LeaseCall::new(2, HOUR, call_id) })
}

/// Puts in the place of each token its hour and its rank among the others.
fn without_moments(text: &str) -> String {
    let runs = || text.split(|c: char| !c.is_ascii_digit()).filter(|run| run.len() == TOKEN_LEN);
    let mut tokens: Vec<&str> = runs().collect();
    tokens.sort_unstable();
    tokens.dedup();
    let mut shown = text.to_owned();
    for (rank, token) in tokens.into_iter().enumerate() {
        let hour = token.parse::<u64>().unwrap() / (HOUR.as_micros() as u64);
        shown = shown.replace(token, &format!("#{rank}@{hour}"));
    }
    shown
}
