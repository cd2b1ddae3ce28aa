//! What comes next in a random life: a step drawn from a seed and from what the world looks like.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, JobId, Options, Priority, Rate};
use duebox_queue::{Due, Finish, IfExists, LeaseCall, Limits, NewJob, Verdict};
use fastrand::Rng;

use crate::life::{Outcome, World};
use crate::relay::ENTRIES_MAX;
use crate::snapshot::{Snapshot, text};
use crate::step::{Claim, Step, TickStep};

const HOUR_MS: u64 = 3_600_000;
const EXPIRED_INFO: &str = r#"{"class":"expired"}"#;

impl World {
    /// The rules under which a topic's life begins.
    pub(crate) async fn begin(&mut self, at: usize, seed: u64) -> Outcome {
        self.rng = Rng::with_seed(seed.wrapping_add(at as u64));
        let rules = self.rules();
        self.take(at, Step::Configure(rules)).await
    }

    /// Takes a step.
    pub(crate) async fn go_on(&mut self) -> Outcome {
        let at = usize::from(self.rng.u8(..3) == 0);
        match self.rng.u8(..110) {
            0..=3 => {
                let by = hours(self.rng.u64(1..3));
                self.advance(by).await
            }
            4..=7 => self.relay(at).await,
            8..=9 => {
                self.read(at);
                Ok(())
            }
            10..=12 => {
                let (count, deletes) = (self.rng.usize(1..4), self.rng.bool());
                self.push_read(count, deletes).await
            }
            _ => {
                let step = self.choose(at);
                self.take(at, step).await
            }
        }
    }

    fn choose(&mut self, at: usize) -> Step {
        match self.rng.u8(..100) {
            0..=19 => self.push(at),
            20..=27 => self.plain(at),
            28..=39 => Step::Promote {
                n: self.rng.usize(1..6),
                skip: if self.rng.u8(..4) == 0 { self.rng.u64(1..3) } else { 0 },
                discard: self.rng.u8(..4) == 0,
            },
            40..=56 => self.lease(at),
            57..=74 => self.settle(at),
            75..=78 => {
                Step::Extend(self.some_claims(at).into_iter().map(|c| (c, hours(1))).collect())
            }
            79..=82 => Step::Reclaim { delay: self.hours_up_to(2), discard: self.rng.u8(..4) == 0 },
            83..=85 => Step::Cancel(match self.rng.bool() {
                true => self.some_claims(at).into_iter().map(|claim| claim.id).collect(),
                false => self.some_ids(),
            }),
            86..=89 => {
                let due = self.due(at);
                Step::Reschedule(self.id_that_waits(at), due)
            }
            90..=91 => Step::Requeue(self.some_ids()),
            92 => match self.rng.u8(..4) {
                0 => Step::PruneDone(self.rng.u64(..3)),
                1 => Step::Prune(self.some_ids()),
                2 => Step::PruneOlder(self.hours_up_to(3)),
                _ => Step::PruneAbove(self.rng.u64(..3)),
            },
            93 => Step::Pause(self.rng.u8(..3) == 0),
            94..=95 => Step::Configure(self.rules()),
            96..=97 => self.tick(at),
            _ => Step::Sweep,
        }
    }

    fn rules(&mut self) -> Limits {
        let rng = &mut self.rng;
        let rates = [None, None, Rate::parse("1/h").ok(), Rate::parse("3/h").ok()];
        Limits {
            per_key: NonZero::new(rng.u32(..3)),
            relaxed: rng.bool(),
            max_pending: NonZero::new([0, 0, 0, 4][rng.usize(..4)]),
            max_running: NonZero::new([0, 0, 1, 3][rng.usize(..4)]),
            rate: rates[rng.usize(..4)],
            burst: NonZero::new(rng.u32(1..4)),
            ttl: [None, None, Some(1), Some(5)][rng.usize(..4)]
                .map(|halves| Duration::from_millis(halves * HOUR_MS / 2)),
            priorities: rng.bool(),
            max_crashes: NonZero::new([0, 0, 1, 4][rng.usize(..4)]),
            max_dead: [None, None, Some(0), Some(2)][rng.usize(..4)],
            ..Limits::default()
        }
    }

    fn push(&mut self, at: usize) -> Step {
        let mode = [IfExists::Reject, IfExists::Keep, IfExists::Replace, IfExists::Replace];
        let mode = mode[self.rng.usize(..mode.len())];
        let count = if self.rng.u8(..3) == 0 { self.rng.usize(2..5) } else { 1 };
        Step::Push(mode, (0..count).map(|_| self.new_job(at)).collect())
    }

    fn new_job(&mut self, at: usize) -> NewJob {
        let (id, due, payload) = (self.id(), self.due(at), self.payload());
        NewJob { id, due, payload, options: self.options() }
    }

    fn options(&mut self) -> Options {
        let mut options = Options::default();
        if self.rng.u8(..2) == 0 {
            options = options.with_key(["k", "l"][self.rng.usize(..2)]).unwrap();
        }
        if self.rng.u8(..3) == 0 {
            options = options.with_priority(Priority::ALL[self.rng.usize(..3)]);
        }
        match self.rng.u32(..8) {
            0 => options.with_max_attempts(self.rng.u32(1..5)),
            1 => options.with_ttl(Duration::from_millis(self.rng.u64(..4) * HOUR_MS / 2)),
            2 => options.with_max_crashes(self.rng.u32(1..4)),
            _ => options,
        }
    }

    fn plain(&mut self, at: usize) -> Step {
        let now = (self.sides[at].last.now_us / 1_000) as f64;
        let hours = self.rng.u64(..4) * HOUR_MS;
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

    fn lease(&mut self, at: usize) -> Step {
        let calls = &self.sides[at].calls;
        if !calls.is_empty() && self.rng.u8(..4) == 0 {
            return Step::Lease(calls[self.rng.usize(..calls.len())].clone());
        }
        self.serial += 1;
        let (jobs, lease) = (self.rng.usize(1..5), hours(self.rng.u64(1..4)));
        let mut call = LeaseCall::new(jobs, lease, format!("runner:{}", self.serial));
        if self.rng.bool() {
            call.at_once = self.rng.usize(..=jobs);
        }
        call.expired_info = (self.rng.u8(..4) > 0).then(|| EXPIRED_INFO.to_owned());
        if self.rng.u8(..8) == 0 {
            call.bytes_max = Some(self.rng.u64(1..8));
        }
        if self.rng.u8(..16) == 0 {
            call.last_at_ms = Some(if self.rng.bool() { 0 } else { u64::MAX });
        }
        if self.rng.u8(..8) == 0 {
            call.min_age = Duration::from_millis(HOUR_MS / 2 * self.rng.u64(1..4));
        }
        Step::Lease(call)
    }

    fn settle(&mut self, at: usize) -> Step {
        // No more entries than the relay can be followed on.
        let mut room = ENTRIES_MAX.saturating_sub(self.sides[at].last.outbox.len());
        let claims = self.some_claims(at).into_iter();
        Step::Settle(claims.map(|claim| (claim, self.verdict(&mut room))).collect())
    }

    fn verdict(&mut self, room: &mut usize) -> Verdict {
        self.serial += 1;
        let info = format!(r#"{{"reason":"{}"}}"#, self.serial);
        match self.rng.u8(..14) {
            0 => Verdict::Ack,
            1 => Verdict::Discard,
            2..=5 => Verdict::Finish(self.finish(info, room)),
            6..=8 => {
                let (delay, max_attempts) = (self.hours_up_to(3), self.rng.u32(1..5));
                Verdict::Nack { delay, max_attempts, info }
            }
            9..=10 => Verdict::Snooze {
                delay: self.hours_up_to(2),
                max_snoozes: self.rng.u32(..3),
                nack_delay: self.hours_up_to(3),
                max_attempts: self.rng.u32(1..4),
                info,
            },
            11 => Verdict::Drop { info },
            _ => Verdict::Release { delay: self.hours_up_to(2) },
        }
    }

    fn finish(&mut self, info: String, room: &mut usize) -> Finish {
        let info = self.rng.bool().then_some(info);
        let result = (info.is_some() && self.rng.bool()).then(|| self.payload());
        let halves = [0, 1, 3, 5][self.rng.usize(..4)];
        let unique_for = Duration::from_millis(halves * HOUR_MS / 2);
        let count = if *room > 0 { self.rng.usize(..4) } else { 0 };
        *room -= usize::from(count > 0);
        let follow_ups = (0..count).map(|_| self.follow_up()).collect();
        Finish { unique_for, info, result, follow_ups }
    }

    fn follow_up(&mut self) -> FollowUp {
        let topic = self.sides[self.rng.usize(..2)].fixture.topic.clone();
        let payload = self.payload();
        let id = match self.rng.u8(..4) {
            0..=1 => self.id(),
            _ => JobId::new(format!("f{}", self.serial)).unwrap(),
        };
        let now = self.sides[0].last.now_us / 1_000;
        let due = match self.rng.u8(..3) {
            0 => FollowUpDue::AfterMs(0),
            1 => FollowUpDue::AfterMs(self.rng.u64(..3) * HOUR_MS),
            _ => FollowUpDue::AtMs(now + self.rng.u64(1..3) * HOUR_MS),
        };
        FollowUp { topic, id, due, payload, options: self.options() }
    }

    fn tick(&mut self, at: usize) -> Step {
        let side = &self.sides[at];
        let now = side.last.now_us / 1_000;
        let known = side.last.ticks.get(b"nightly".as_slice());
        let known = known.map(|time| text(time) as u64);
        let expected = match self.rng.u8(..4) {
            0 => None,
            _ => known,
        };
        let until = match (self.rng.u8(..6), known) {
            (0, _) => now + HOUR_MS,
            // The same tick again, as after a clock that was put back.
            (1..=2, Some(known)) => known,
            _ => now - self.rng.u64(..3) * HOUR_MS,
        };
        let count = self.rng.u64(..3);
        let times = (0..count).rev().map(|back| until - back * HOUR_MS).collect();
        let (schedule, line) = ("nightly".to_owned(), format!("line {}", self.rng.u8(..2)));
        Step::Tick(TickStep { schedule, line, expected, until, times, payload: self.payload() })
    }

    /// One to three known claims, the same twice now and then, or one that no runner holds.
    fn some_claims(&mut self, at: usize) -> Vec<Claim> {
        if self.sides[at].claims.is_empty() {
            return vec![Claim { id: self.id(), token_us: self.sides[at].last.now_us, due: 0.0 }];
        }
        let count = self.rng.usize(1..4);
        let claims = &self.sides[at].claims;
        (0..count).map(|_| claims[self.rng.usize(..claims.len())].clone()).collect()
    }

    fn id(&mut self) -> JobId {
        JobId::new(["a", "b", "c", "d", "e"][self.rng.usize(..5)]).unwrap()
    }

    /// Half the time one that waits, as often in ready or pending as in retry or in a line.
    fn id_that_waits(&mut self, at: usize) -> JobId {
        let Snapshot { pending, ready, retry, blocked_at, .. } = &self.sides[at].last;
        let mut ids: Vec<&Vec<u8>> = match self.rng.u8(..4) {
            0 => pending.keys().chain(ready.keys()).collect(),
            1 => retry.keys().chain(blocked_at.keys()).collect(),
            _ => Vec::new(),
        };
        match ids.len() {
            0 => self.id(),
            count => JobId::from_redis(ids.swap_remove(self.rng.usize(..count)).clone()),
        }
    }

    fn some_ids(&mut self) -> Vec<JobId> {
        let count = self.rng.usize(1..3);
        (0..count).map(|_| self.id()).collect()
    }

    fn payload(&mut self) -> Bytes {
        self.serial += 1;
        Bytes::from(self.serial.to_string())
    }

    fn due(&mut self, at: usize) -> Due {
        let now = self.sides[at].last.now_us / 1_000;
        match self.rng.u8(..10) {
            0..=4 => Due::Now,
            5..=6 => Due::In(self.hours_up_to(4)),
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
