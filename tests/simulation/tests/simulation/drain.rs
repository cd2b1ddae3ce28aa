//! Drains while Redis is away, on a simulated clock. They take until their deadline, and half a second more if a turn
//! is under way then; the ledger of each life checks that none takes a second more. Another daemon may
//! lease what they give back at once.

use std::time::Duration;

use duebox_queue::REPLY_MAX;
use duebox_simulation::life::{Fault, JobPlan, Life, Options, Plan, Settings, live_plan};
use duebox_simulation::network::FaultRates;
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

/// Redis is slow to lease two jobs, so their leases are renewed at once. The turn that renews them is lost. When it is
/// sent again, the daemon drains and has given back the job that waits: another daemon may have it then.
#[test]
fn a_job_that_a_drain_gives_back_during_a_renewal_is_leased_again_at_once() {
    let lease = Duration::from_secs(12);
    let due_at = Duration::from_secs(1);
    let leased_at = due_at + lease / 3 + 150 * MS;
    let drain_at = leased_at + Duration::from_secs(2);
    let noticed_at = leased_at + REPLY_MAX;
    // The worker leases ahead after quick jobs.
    let quick = (0..30).map(|number| JobPlan::new(number, due_at - 100 * MS, MS));
    let slow = (30..32).map(|number| JobPlan {
        delay: due_at - 100 * MS,
        ..JobPlan::new(number, 100 * MS, Duration::from_secs(10))
    });
    let lost = FaultRates { lost_requests: 1, ..FaultRates::default() };
    let plan = Plan {
        // The first daemon leases both.
        seed: 1,
        daemons: 2,
        lease,
        settings: Settings { lease_s: lease.as_secs(), ..Settings::one_at_a_time() },
        jobs: quick.chain(slow).collect(),
        orders: Vec::new(),
        faults: vec![
            (due_at - 5 * MS, Fault::Stall(leased_at - due_at + 5 * MS)),
            (leased_at - 20 * MS, Fault::Network(lost, 100 * MS)),
            (drain_at, Fault::Drain(0, Duration::from_secs(20))),
        ],
    };
    let life = live_plan(plan, &Options::default(), &Notify::new());
    assert!(life.violations.is_empty(), "{:#?}", life.violations);
    let runs = |id: &str| -> Vec<(u64, Duration)> {
        let of_job = life.starts.iter().filter(|run| run.id == id);
        of_job.map(|run| (run.daemon, run.at)).collect()
    };
    let (first, second) = (runs("j30"), runs("j31"));
    let within = noticed_at..noticed_at + 500 * MS;
    assert!(first.len() == 1 && (leased_at..drain_at).contains(&first[0].1), "{first:?}");
    assert!(second.len() == 1 && within.contains(&second[0].1), "{second:?}");
    assert_ne!(first[0].0, second[0].0, "the daemon that drains has leased both");
}
