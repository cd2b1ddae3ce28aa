//! One life: what it is made of, and its result.

mod check;
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

pub use self::plan::{Fault, Plan};
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
    /// Runs of handlers.
    pub runs: usize,
    /// Faults that hit something.
    pub faults: u64,
    /// How long it lasted in its own time.
    pub lasted: Duration,
    /// Stands for every command and reply.
    pub trace: u64,
}

/// Lives the life of a seed.
pub fn live(seed: u64, options: &Options) -> Life {
    live_until(seed, options, &Notify::new())
}

/// Lives the life of a seed. It fails where its time stands still, where it panics, and where it is told that
/// it has taken too long.
pub fn live_until(seed: u64, options: &Options, is_too_long: &Notify) -> Life {
    fastrand::seed(seed);
    let plan = Arc::new(Plan::new(seed));
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
