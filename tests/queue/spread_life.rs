//! Random lives of jobs in a topic whose number of shards changes while they live. The scripts see
//! each shard as a topic of its own, so that the model has nothing to say of them together; the ledger
//! has: it knows one topic and its ids, and no shards.
//!
//! The key of a job follows from its id: an id that is pushed under several keys is several jobs, one
//! where each key lives. Plain pushes go to the first shard, whatever lives in the others.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_harness::TestRedis;
use duebox_job::{JobId, Options, Shard};
use duebox_queue::{Due, IfExists, LeaseCall, Limits, NewJob, Verdict};
use fastrand::Rng;

use crate::fixture::Fixture;
use crate::ledger::Ledger;
use crate::snapshot::Snapshot;
use crate::step::{Claim, Reply, Step};

const HOUR: Duration = Duration::from_secs(3_600);
const SEEDS: u64 = 40;
const STEPS: usize = 250;
const SHARDS_MAX: u32 = 5;
const CLAIMS: usize = 8;
const DRAIN_MAX: usize = 30;
const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

struct Spread {
    /// The topic as a whole, which is also its first shard.
    fixture: Fixture,
    shards: BTreeMap<Shard, Fixture>,
    ledger: Ledger,
    rng: Rng,
    serial: u64,
    now_us: u64,
    claims: Vec<(Shard, Claim)>,
    past: Vec<String>,
}

#[tokio::test]
async fn jobs_live_through_every_change_of_the_number_of_shards() {
    let server = TestRedis::start();
    for seed in 0..SEEDS {
        let mut spread = Spread::new(&server, seed).await;
        for _ in 0..STEPS {
            spread.go_on().await;
        }
        spread.drain().await;
    }
}

impl Spread {
    async fn new(server: &TestRedis, seed: u64) -> Self {
        let fixture = Fixture::of(server).await;
        let mut shards = BTreeMap::new();
        for number in 0..SHARDS_MAX {
            let shard = fixture.topic.shard(number);
            shards.insert(shard.clone(), fixture.in_shard(shard).await);
        }
        let now_us = fixture.snapshot().now_us;
        Self {
            fixture,
            shards,
            ledger: Ledger::default(),
            rng: Rng::with_seed(seed),
            serial: 0,
            now_us,
            claims: Vec::new(),
            past: vec![format!("seed {seed}")],
        }
    }

    async fn go_on(&mut self) {
        match self.rng.u8(..100) {
            0..=5 => {
                let shards = self.rng.u32(1..=SHARDS_MAX);
                let rules = Limits { shards: NonZero::new(shards), ..Limits::default() };
                self.past.push(format!("{shards} shards"));
                self.fixture.queue.configure(&self.fixture.topic, &rules).await.unwrap();
            }
            6..=35 => {
                let mode = [IfExists::Reject, IfExists::Keep, IfExists::Replace];
                let mode = mode[self.rng.usize(..3)];
                let jobs = (0..self.rng.usize(1..5)).map(|_| self.new_job()).collect();
                self.on_topic(Step::Push(mode, jobs)).await;
            }
            36..=41 => {
                let ids = (0..2).map(|_| self.id()).collect();
                self.on_topic(Step::Cancel(ids)).await;
            }
            42..=47 => {
                let due = self.due();
                let id = self.id();
                self.on_topic(Step::Reschedule(id, due)).await;
            }
            48..=51 => self.advance(HOUR).await,
            52..=60 => self.promote().await,
            61..=77 => self.lease().await,
            78..=81 => self.reclaim().await,
            _ => self.settle().await,
        }
    }

    /// A step that goes through all shards, and is of the topic as a whole.
    async fn on_topic(&mut self, step: Step) {
        let none = Snapshot::default();
        let reply = step.perform(&self.fixture).await;
        self.note(&step, &reply, &none, &none);
    }

    async fn in_shard(&mut self, shard: &Shard, step: Step) -> Reply {
        let fixture = &self.shards[shard];
        let before = fixture.snapshot();
        let reply = step.perform(fixture).await;
        let after = fixture.snapshot();
        self.past.push(format!("in {}", shard.tag()));
        self.note(&step, &reply, &before, &after);
        reply
    }

    fn note(&mut self, step: &Step, reply: &Reply, before: &Snapshot, after: &Snapshot) {
        self.past.push(format!("{step:?}\n    -> {reply:?}"));
        let now_us = self.fixture.snapshot().now_us;
        let (ledger, clock) = (&mut self.ledger, (self.now_us, now_us));
        let noted = crate::life::quietly(|| ledger.note(step, reply, clock, before, after));
        self.now_us = now_us;
        if let Err(why) = noted {
            panic!("{}\n{why}", self.past.join("\n"));
        }
    }

    async fn advance(&mut self, by: Duration) {
        for fixture in self.shards.values() {
            fixture.advance(by, &mut []);
        }
        for (_, claim) in &mut self.claims {
            claim.token_us -= by.as_micros() as u64;
        }
        let none = Snapshot::default();
        self.note(&Step::Advance(by), &Reply::Nothing, &none, &none);
    }

    /// The shards that runners look at.
    async fn looked_at(&self) -> Vec<Shard> {
        self.fixture.queue.shards(&self.fixture.topic).await.unwrap().all().collect()
    }

    async fn promote(&mut self) {
        for shard in self.looked_at().await {
            self.in_shard(&shard, Step::Promote { n: 100, skip: 0, discard: false }).await;
        }
    }

    async fn reclaim(&mut self) {
        for shard in self.looked_at().await {
            self.in_shard(&shard, Step::Reclaim { delay: HOUR, discard: false }).await;
        }
    }

    async fn lease(&mut self) {
        let shards = self.looked_at().await;
        let shard = &shards[self.rng.usize(..shards.len())];
        self.serial += 1;
        let (jobs, call_id) = (self.rng.usize(1..4), format!("runner:{}", self.serial));
        let step = Step::Lease(LeaseCall::new(jobs, HOUR * 2, call_id));
        if let Reply::Leased(granted) = self.in_shard(shard, step).await {
            let claims = granted.jobs.into_iter().map(|given| (shard.clone(), given.claim));
            self.claims.extend(claims);
            let over = self.claims.len().saturating_sub(CLAIMS);
            self.claims.drain(..over);
        }
    }

    async fn settle(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let (shard, claim) = self.claims.swap_remove(self.rng.usize(..self.claims.len()));
        let info = "{}".to_owned();
        let verdict = match self.rng.u8(..4) {
            0 | 1 => Verdict::Ack,
            2 => Verdict::Nack { delay: HOUR, max_attempts: 3, info },
            _ => Verdict::Drop { info },
        };
        self.in_shard(&shard, Step::Settle(vec![(claim, verdict)])).await;
    }

    /// Pushes have ended: the states that runners look at become empty, and nothing is left
    /// elsewhere.
    async fn drain(&mut self) {
        for _ in 0..DRAIN_MAX {
            self.advance(HOUR * 3).await;
            self.reclaim().await;
            self.promote().await;
            for shard in self.looked_at().await {
                self.serial += 1;
                let call = LeaseCall::new(100, HOUR, format!("drain:{}", self.serial));
                let Reply::Leased(granted) = self.in_shard(&shard, Step::Lease(call)).await else {
                    continue;
                };
                let acks = granted.jobs.into_iter().map(|given| (given.claim, Verdict::Ack));
                let acks: Vec<_> = acks.collect();
                if !acks.is_empty() {
                    self.in_shard(&shard, Step::Settle(acks)).await;
                }
            }
            let left = |fixture: &Fixture| !fixture.snapshot().jobs.is_empty();
            if !self.shards.values().any(left) {
                self.ledger.assert_all_ended();
                return;
            }
        }
        panic!("{}\nnot drained", self.past.join("\n"));
    }

    fn new_job(&mut self) -> NewJob {
        let id = self.id();
        let options = match id.as_bytes() {
            b"a" | b"b" | b"c" => Options::default().with_key("k").unwrap(),
            _ => Options::default(),
        };
        self.serial += 1;
        NewJob { id, due: self.due(), payload: Bytes::from(self.serial.to_string()), options }
    }

    fn id(&mut self) -> JobId {
        JobId::new(IDS[self.rng.usize(..IDS.len())]).unwrap()
    }

    fn due(&mut self) -> Due {
        if self.rng.bool() { Due::Now } else { Due::In(HOUR * self.rng.u32(..3)) }
    }
}
