//! What a seed chooses: the settings, the jobs, and the faults.

use std::time::Duration;

use crate::network::FaultRates;
use crate::redis::server::Refusal;

/// How long producers push and faults happen.
pub(crate) const STORM: Duration = Duration::from_secs(12);
/// Attempts of every job.
pub(crate) const MAX_ATTEMPTS: u32 = 3;
/// The runner deaths that bury a job.
pub(crate) const MAX_CRASHES: usize = 3;
/// The interval of the schedule.
pub(crate) const TICK: Duration = Duration::from_secs(2);
/// One life in so many has a burst of jobs.
const BURST_ONE_IN: u8 = 50;
/// The topics by their settings; see [`Plan::manifest`].
pub(crate) const TOPICS: [&str; 4] = ["plain", "keyed", "unique", "pulled"];
/// The topic that no daemon serves: a consumer pulls its jobs.
pub(crate) const PULLED: usize = 3;

/// A life before it is lived.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Daemons at the start.
    pub daemons: usize,
    /// How long a lease lasts.
    pub lease: Duration,
    /// The manifest of all daemons.
    pub settings: Settings,
    /// The jobs. Their ids are `j` and their place.
    pub jobs: Vec<JobPlan>,
    /// What operators order, each with its time.
    pub orders: Vec<(Duration, Order)>,
    /// The faults, each with its time.
    pub faults: Vec<(Duration, Fault)>,
}

/// What an operator orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Cancels a job.
    Cancel(usize),
    /// Pushes a job in place of one with its id.
    Replace(usize),
    /// Pauses a topic.
    Pause(usize),
    /// Resumes a topic.
    Resume(usize),
}

/// Settings of the topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Seconds of a lease.
    pub lease_s: u64,
    /// Jobs that a daemon runs at once.
    pub concurrency: u32,
    /// Jobs of the plain topic that run at once, all daemons together; 0 for no limit.
    pub max_running: u32,
    /// Whether a key's retries hold back its other jobs.
    pub is_strict: bool,
    /// Whether there is a schedule.
    pub has_schedule: bool,
}

impl Settings {
    /// Each daemon runs one job at a time. Nothing else limits or holds back jobs.
    pub fn one_at_a_time() -> Self {
        Self { lease_s: 6, concurrency: 1, max_running: 0, is_strict: false, has_schedule: false }
    }
}

/// One job.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// Its id.
    pub id: String,
    /// Its topic, a place in [`TOPICS`].
    pub topic: usize,
    /// Its key.
    pub key: Option<String>,
    /// When it is pushed.
    pub push_at: Duration,
    /// How much later it falls due.
    pub delay: Duration,
    /// How long each run takes.
    pub length: Duration,
    /// So many attempts fail first.
    pub nacks: u32,
    /// So many runs put it off first.
    pub snoozes: u32,
    /// The attempt after those drops it.
    pub is_dropped: bool,
    /// Jobs that follow its ack.
    pub follow_ups: u32,
    /// It goes before others.
    pub is_high: bool,
    /// Each run adds to a number in the store.
    pub adds: bool,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A daemon is killed, and starts again after this.
    Kill(usize, Duration),
    /// A daemon is told to stop, and starts again.
    Drain(usize, Duration),
    /// The network loses and delays for a while.
    Network(FaultRates, Duration),
    /// Redis is down for a while, and forgets its scripts.
    Down(Duration),
    /// Redis carries out nothing for a while.
    Stall(Duration),
    /// Redis refuses for a while.
    Refuse(Refusal, Duration),
    /// Redis forgets its scripts.
    FlushScripts,
    /// The clock of Redis is set by so many ms.
    Clock(i64),
    /// A replica takes over, this long after a lease that it has not got, or after a second without one; its clock is behind by
    /// so many ms.
    Failover(Duration, i64),
}

impl Fault {
    /// True if it can end a lease before its runner does.
    pub fn breaks_leases(&self) -> bool {
        !matches!(self, Self::FlushScripts)
    }
}

impl JobPlan {
    /// A job of the plain topic that is acked.
    pub fn new(number: usize, push_at: Duration, length: Duration) -> Self {
        Self {
            id: format!("j{number}"),
            topic: 0,
            key: None,
            push_at,
            delay: Duration::ZERO,
            length,
            nacks: 0,
            snoozes: 0,
            is_dropped: false,
            follow_ups: 0,
            is_high: false,
            adds: false,
        }
    }

    /// True if it ends in dead.
    pub fn dies(&self) -> bool {
        self.is_dropped || self.nacks >= MAX_ATTEMPTS
    }

    /// The class of its death.
    pub fn class(&self) -> &'static str {
        if self.nacks >= MAX_ATTEMPTS { "nack" } else { "drop" }
    }
}

impl Plan {
    /// What this seed chooses.
    pub fn new(seed: u64) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed);
        let settings = Settings {
            lease_s: if dice.bool() { 2 } else { 6 },
            concurrency: dice.u32(1..=3),
            max_running: if dice.u8(0..3) == 0 { dice.u32(1..=2) } else { 0 },
            is_strict: dice.bool(),
            has_schedule: dice.u8(0..4) == 0,
        };
        let count = dice.usize(2..=14);
        let mut jobs: Vec<JobPlan> = (0..count).map(|n| job(&mut dice, n)).collect();
        let orders = orders(&mut dice, &jobs);
        let burst_at = (dice.u8(0..BURST_ONE_IN) == 0).then(|| up_to(&mut dice, STORM));
        if let Some(at) = burst_at {
            jobs.extend(burst(&mut dice, jobs.len(), at));
        }
        let daemons = dice.usize(1..=2);
        let count = if dice.u8(0..12) == 0 { 0 } else { dice.usize(1..=6) };
        let mut faults: Vec<_> = (0..count).map(|_| fault(&mut dice, daemons)).collect();
        if let Some(at) = burst_at.filter(|_| dice.bool()) {
            let at = at + up_to(&mut dice, Duration::from_secs(1));
            faults.push((at, Fault::Kill(dice.usize(0..daemons), Duration::from_secs(1))));
        }
        faults.sort_by_key(|(at, _)| *at);
        let lease = Duration::from_secs(settings.lease_s);
        Self { seed, daemons, lease, settings, jobs, orders, faults }
    }

    /// The job of this id.
    pub fn job(&self, id: &str) -> Option<&JobPlan> {
        self.jobs.get(id.strip_prefix('j')?.parse::<usize>().ok()?)
    }

    /// True if the clock of Redis is set.
    pub fn sets_clock(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::Clock(_) | Fault::Failover(..)))
    }
}

impl Settings {
    /// The manifest.
    pub fn manifest(&self) -> String {
        let Self { lease_s, concurrency, max_running, is_strict, has_schedule } = self;
        let order = if *is_strict { "strict" } else { "relaxed" };
        let schedule = if *has_schedule {
            "[[schedules]]\nname = \"tick\"\ntopic = \"plain\"\nevery = \"2s\"\nmissed = \"all\"\nwindow = \"1h\"\n"
        } else {
            ""
        };
        format!(
            "[redis]\nurl = \"redis://simulation\"\npoll = \"5s\"\n\
             [runner]\nlease = \"{lease_s}s\"\n\
             [defaults]\nconcurrency = {concurrency}\n\
             max_attempts = {MAX_ATTEMPTS}\nmax_crashes = {MAX_CRASHES}\n\
             backoff = \"700ms\"\nttr = \"30s\"\nbreaker = {{ failures = 0 }}\n\
             [topics.\"plain\"]\nhandler = \"simulated.wasm\"\nmax_running = {max_running}\n\
             [topics.\"keyed\"]\nhandler = \"simulated.wasm\"\nper_key_concurrency = 1\norder = \"{order}\"\n\
             [topics.\"unique\"]\nhandler = \"simulated.wasm\"\nunique_for = \"1h\"\ndone_retention = \"1h\"\n{schedule}"
        )
    }
}

fn up_to(dice: &mut fastrand::Rng, most: Duration) -> Duration {
    Duration::from_millis(dice.u64(0..=most.as_millis() as u64))
}

fn job(dice: &mut fastrand::Rng, number: usize) -> JobPlan {
    let topic = dice.usize(0..TOPICS.len());
    let is_long = dice.u8(0..8) == 0;
    JobPlan {
        id: format!("j{number}"),
        topic,
        key: (topic == 1).then(|| format!("k{}", dice.u8(0..3))),
        push_at: up_to(dice, STORM),
        delay: if dice.bool() { Duration::ZERO } else { up_to(dice, Duration::from_secs(4)) },
        length: up_to(dice, Duration::from_millis(if is_long { 9_000 } else { 300 })),
        nacks: if dice.u8(0..4) == 0 { dice.u32(1..=MAX_ATTEMPTS) } else { 0 },
        snoozes: if topic != PULLED && dice.u8(0..8) == 0 { dice.u32(1..=2) } else { 0 },
        is_dropped: dice.u8(0..12) == 0,
        follow_ups: if topic != PULLED && dice.u8(0..4) == 0 { dice.u32(1..=2) } else { 0 },
        is_high: dice.u8(0..6) == 0,
        adds: dice.u8(0..6) == 0,
    }
}

/// Some hundred jobs of the plain topic that are pushed at once. Most are short, and some slow, so that jobs are
/// leased ahead and have to go back.
fn burst(dice: &mut fastrand::Rng, first: usize, push_at: Duration) -> Vec<JobPlan> {
    let count = dice.usize(100..300);
    let slow_one_in = dice.u32(5..80);
    let jobs = (first..first + count).map(|number| {
        let is_slow = dice.u32(0..slow_one_in) == 0;
        let length = dice.u64(0..=if is_slow { 150 } else { 2 });
        JobPlan::new(number, push_at, Duration::from_millis(length))
    });
    jobs.collect()
}

fn orders(dice: &mut fastrand::Rng, jobs: &[JobPlan]) -> Vec<(Duration, Order)> {
    let mut orders = Vec::new();
    for (place, job) in jobs.iter().enumerate() {
        let at = job.push_at + up_to(dice, Duration::from_secs(3));
        match dice.u8(0..16) {
            0 => orders.push((at, Order::Cancel(place))),
            1 => orders.push((at, Order::Replace(place))),
            _ => {}
        }
    }
    if dice.u8(0..6) == 0 {
        let (topic, at) = (dice.usize(0..TOPICS.len()), up_to(dice, STORM));
        orders.push((at, Order::Pause(topic)));
        orders.push((at + up_to(dice, Duration::from_secs(5)), Order::Resume(topic)));
    }
    orders.sort_by_key(|(at, _)| *at);
    orders
}

fn fault(dice: &mut fastrand::Rng, daemons: usize) -> (Duration, Fault) {
    let at = up_to(dice, STORM);
    let span = up_to(dice, Duration::from_secs(8));
    let daemon = dice.usize(0..daemons);
    let fault = match dice.u8(0..18) {
        0..=3 => Fault::Kill(daemon, span),
        4 => Fault::Drain(daemon, span),
        5..=9 => Fault::Network(rates(dice), span),
        10 => Fault::Down(span),
        11 => Fault::Stall(span),
        12 => Fault::Refuse(Refusal::OutOfMemory, span),
        13 => Fault::Refuse(Refusal::ReadOnly, span),
        14 => Fault::FlushScripts,
        15 => Fault::Clock(dice.i64(-30_000..120_000)),
        _ => {
            let behind_max = [1, 1_000, 30_000][dice.usize(0..3)];
            Fault::Failover(up_to(dice, Duration::from_millis(50)), dice.i64(0..behind_max))
        }
    };
    (at, fault)
}

fn rates(dice: &mut fastrand::Rng) -> FaultRates {
    let mut rate = || if dice.bool() { dice.u32(2..20) } else { 0 };
    FaultRates {
        lost_requests: rate(),
        lost_replies: rate(),
        late_requests: rate(),
        delays: rate(),
    }
}
