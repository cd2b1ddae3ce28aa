//! How long a drain takes without Redis, on a simulated clock: until its deadline, and half a second more if a turn
//! is under way then. The ledger of each life checks that none takes a second more.

use std::time::Duration;

use duebox_simulation::life::{Fault, JobPlan, Life, Options, Plan, Settings, live_plan};
use tokio::sync::Notify;

const MS: Duration = Duration::from_millis(1);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// When the drain is ordered. The job runs by then.
const ORDERED_AT: Duration = Duration::from_secs(1);

/// A life of one daemon that drains while its only job runs.
fn drained(seed: u64, other_fault: Option<(Duration, Fault)>) -> Duration {
    let settings = Settings::one_at_a_time();
    let mut faults = vec![(ORDERED_AT, Fault::Drain(0, DRAIN_TIMEOUT))];
    faults.extend(other_fault);
    faults.sort_by_key(|(at, _)| *at);
    let plan = Plan {
        seed,
        daemons: 1,
        lease: Duration::from_secs(6),
        settings,
        jobs: vec![JobPlan::new(0, 100 * MS, Duration::from_secs(20))],
        orders: Vec::new(),
        faults,
    };
    let Life { violations, drains, .. } = live_plan(plan, &Options::default(), &Notify::new());
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    assert_eq!(drains.len(), 1, "seed {seed}");
    drains[0]
}

#[test]
fn a_drain_without_redis_ends_half_a_second_after_its_deadline_at_the_latest() {
    let mut longest = Duration::ZERO;
    for seed in 0..200 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let span = Duration::from_secs(20);
        let fault = if dice.bool() { Fault::Stall(span) } else { Fault::Down(span) };
        let at = ORDERED_AT / 2 + MS * dice.u32(0..=5_500);
        let took = drained(seed, Some((at, fault)));
        let until = DRAIN_TIMEOUT + 505 * MS;
        assert!(
            (DRAIN_TIMEOUT..=until).contains(&took),
            "seed {seed}, {fault:?} at {at:?}: {took:?}"
        );
        longest = longest.max(took);
    }
    assert!(longest > DRAIN_TIMEOUT + 400 * MS, "no turn was under way: {longest:?}");
}

#[test]
fn a_drain_releases_its_job_at_its_deadline() {
    let took = drained(1, None);
    assert!((DRAIN_TIMEOUT..DRAIN_TIMEOUT + 100 * MS).contains(&took), "{took:?}");
}
