//! One life: what it is made of, and its result.

mod check;
mod consumer;
mod daemon;
mod handler;
mod ledger;
mod panics;
mod plan;
mod producer;
mod story;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use self::ledger::Run;
pub use self::plan::{Fault, JobPlan, Order, Plan, Settings};
use self::story::Story;
use crate::network::Network;
use crate::redis::server::{Mutation, Server};

/// How a life is lived.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A change of the queue's scripts that the life should find.
    pub mutation: Option<Mutation>,
    /// Prints every command.
    pub is_verbose: bool,
}

/// The result of a life.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Life {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub violations: Vec<String>,
    /// Runs of handlers, in the order of their starts.
    pub starts: Vec<StartedRun>,
    /// How long each drain of a daemon took.
    pub drains: Vec<Duration>,
    /// Leases that ended before their job started.
    pub went_back: u64,
    /// Leases that a failover lost.
    pub lost_leases: u64,
    /// Faults that hit something.
    pub faults: u64,
    /// How often verdicts and leases of a topic were under way at once.
    pub turns_together: u64,
    /// How long it lasted in its own time.
    pub lasted: Duration,
    /// Stands for every command and reply.
    pub trace: u64,
}

/// A run of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedRun {
    /// The job.
    pub id: String,
    /// Which daemon ran it; each start of a daemon has a number of its own.
    pub daemon: u64,
    /// When it started, from the start of the life.
    pub at: Duration,
    /// The version of the job: 1, or 2 if it was replaced.
    pub version: u8,
}

impl StartedRun {
    fn new(id: &str, run: &Run) -> Self {
        Self { id: id.to_owned(), daemon: run.daemon, at: run.began, version: run.version }
    }
}

/// Lives the life of a seed.
pub fn live(seed: u64, options: &Options) -> Life {
    live_until(seed, options, &Notify::new())
}

/// Lives the life of a seed. It fails where its time stands still, where it panics, and where it is told that
/// it has taken too long.
pub fn live_until(seed: u64, options: &Options, is_too_long: &Notify) -> Life {
    live_plan(Plan::new(seed), options, is_too_long)
}

/// Lives a life as it is planned.
pub fn live_plan(plan: Plan, options: &Options, is_too_long: &Notify) -> Life {
    let (seed, plan) = (plan.seed, Arc::new(plan));
    fastrand::seed(seed);
    let failed = |why: String| Life { seed, violations: vec![why], ..Life::default() };
    let (life, panics) = panics::caught(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = Server::new(options.mutation.clone(), options.is_verbose);
            let network = Network::new(server, seed);
            tokio::select! {
                biased;
                why = network.stood_still() => failed(why),
                () = is_too_long.notified() => failed("it takes too long".to_owned()),
                life = Story::live(plan, network.clone()) => life,
            }
        })
    });
    let mut life = life.unwrap_or_else(|| Life { seed, ..Life::default() });
    life.violations.extend(panics);
    life
}
