//! How far a worker leases ahead, whatever the lengths of its jobs: the real worker on a simulated clock, without
//! faults. The witness of each life checks that a job starts within 50 ms of its lease or goes back, that nothing
//! is leased while the topic is paused, and the ledger that no attempt is spent.

use std::time::Duration;

use duebox_simulation::life::{
    JobPlan, Life, Options, Order, Plan, Settings, StartedRun, live_plan,
};
use tokio::sync::Notify;

const MS: Duration = Duration::from_millis(1);
/// When an order is carried out at the latest, and the last job starts that was leased before it.
const OBEYED: Duration = Duration::from_millis(55);
const SEEDS: std::ops::Range<u64> = 0..60;

/// Random lengths of a kind that its seed chooses. Jobs of no length end at once; the clock does not move.
fn lengths(dice: &mut fastrand::Rng) -> Vec<Duration> {
    let count = dice.usize(50..400);
    let kind = dice.u8(0..6);
    let one_in = dice.usize(2..30);
    let slow = dice.u64(5..150);
    let quick = |dice: &mut fastrand::Rng| if dice.u8(0..8) == 0 { MS } else { Duration::ZERO };
    let length = |place: usize, dice: &mut fastrand::Rng| match kind {
        0 => quick(dice),
        1 => MS * dice.u32(20..80),
        // A part of them slow.
        2 if dice.usize(0..one_in) == 0 => Duration::from_millis(slow),
        // Many quick ones, then slow ones.
        3 if place > count / 2 => Duration::from_millis(slow),
        // Slower and slower.
        4 => Duration::from_millis((place * 60 / count) as u64),
        // Anything.
        5 => match dice.u8(0..10) {
            0 => MS * dice.u32(20..200),
            1 => MS * dice.u32(1..20),
            _ => quick(dice),
        },
        _ => quick(dice),
    };
    (0..count).map(|place| length(place, dice)).collect()
}

/// Jobs that are pushed at once.
fn plan(seed: u64, lengths: &[Duration], daemons: usize) -> Plan {
    let settings = Settings::one_at_a_time();
    let job = |(number, length): (usize, &Duration)| JobPlan::new(number, 100 * MS, *length);
    Plan {
        seed,
        daemons,
        lease: Duration::from_secs(6),
        settings,
        jobs: lengths.iter().enumerate().map(job).collect(),
        orders: Vec::new(),
        faults: Vec::new(),
    }
}

fn lived(plan: Plan) -> Life {
    let life = live_plan(plan, &Options::default(), &Notify::new());
    assert!(life.violations.is_empty(), "seed {}: {:#?}", life.seed, life.violations);
    life
}

fn starts_of<'l>(life: &'l Life, id: &'l str) -> impl Iterator<Item = &'l StartedRun> {
    life.starts.iter().filter(move |run| run.id == id)
}

/// A moment while the jobs run.
fn moment(dice: &mut fastrand::Rng, lengths: &[Duration]) -> Duration {
    let lasts: Duration = lengths.iter().sum();
    100 * MS + MS * dice.u32(0..=lasts.as_millis() as u32)
}

#[test]
fn jobs_of_any_length_start_in_time_or_keep_their_turn() {
    let mut went_back = 0;
    for seed in SEEDS {
        let lengths = lengths(&mut fastrand::Rng::with_seed(seed));
        let life = lived(plan(seed, &lengths, 1));
        let started: Vec<&str> = life.starts.iter().map(|run| run.id.as_str()).collect();
        let pushed: Vec<String> = (0..lengths.len()).map(|number| format!("j{number}")).collect();
        assert_eq!(started, pushed, "seed {seed}");
        went_back += life.went_back;
    }
    assert!(went_back > 0, "no job was leased too far ahead");
}

#[test]
fn short_jobs_alone_never_go_back() {
    for seed in SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let one_in = dice.usize(1..20);
        let length = |_| if dice.usize(0..one_in) == 0 { MS } else { Duration::ZERO };
        let lengths: Vec<Duration> = (0..400).map(length).collect();
        assert_eq!(lived(plan(seed, &lengths, 1)).went_back, 0, "seed {seed}");
    }
}

#[test]
fn a_pause_holds_for_each_job_that_has_not_started() {
    for seed in SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let lengths = lengths(&mut dice);
        let at = moment(&mut dice, &lengths);
        let mut plan = plan(seed, &lengths, 1);
        plan.orders = vec![(at, Order::Pause(0)), (at + 2_000 * MS, Order::Resume(0))];
        let life = lived(plan);
        let paused = at + OBEYED..at + 2_000 * MS;
        let run = life.starts.iter().find(|run| paused.contains(&run.at));
        assert!(run.is_none(), "seed {seed}: {run:?} while paused since {at:?}");
        assert_eq!(life.starts.len(), lengths.len(), "seed {seed}");
    }
}

#[test]
fn cancel_and_replace_win_over_jobs_that_have_not_started() {
    let mut won = [0, 0];
    for seed in SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let lengths = lengths(&mut dice);
        let at = moment(&mut dice, &lengths);
        let (cancelled, replaced) = (dice.usize(0..lengths.len()), dice.usize(0..lengths.len()));
        let mut plan = plan(seed, &lengths, 1);
        plan.orders = vec![(at, Order::Cancel(cancelled))];
        if replaced != cancelled {
            plan.orders.push((at, Order::Replace(replaced)));
        }
        let life = lived(plan);
        let (cancelled, replaced) = (format!("j{cancelled}"), format!("j{replaced}"));
        assert!(starts_of(&life, &cancelled).all(|run| run.at < at + OBEYED), "seed {seed}");
        won[0] += usize::from(starts_of(&life, &cancelled).next().is_none());
        if replaced != cancelled {
            let mut first = starts_of(&life, &replaced).filter(|run| run.version == 1);
            assert!(first.all(|run| run.at < at + OBEYED), "seed {seed}");
            let second = starts_of(&life, &replaced).filter(|run| run.version == 2);
            assert_eq!(second.count(), 1, "seed {seed}");
            won[1] += usize::from(starts_of(&life, &replaced).count() == 1);
        }
    }
    assert!(won[0] > 10 && won[1] > 10, "{won:?}");
}

#[test]
fn a_high_priority_goes_before_each_job_that_has_not_started() {
    for seed in SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let lengths = lengths(&mut dice);
        let at = moment(&mut dice, &lengths);
        let mut plan = plan(seed, &lengths, 1);
        let mut high = JobPlan::new(lengths.len(), at, Duration::ZERO);
        high.is_high = true;
        let id = high.id.clone();
        plan.jobs.push(high);
        let life = lived(plan);
        let high_at = starts_of(&life, &id).next().expect("it ran").at;
        let between = life.starts.iter().find(|run| run.at > at + OBEYED && run.at < high_at);
        assert!(between.is_none(), "seed {seed}: {between:?}, and {id} at {high_at:?}");
    }
}

#[test]
fn two_daemons_share_slow_jobs_within_a_tenth() {
    for seed in SEEDS {
        let mut dice = fastrand::Rng::with_seed(seed);
        let lengths = lengths(&mut dice);
        let (total, longest) = (lengths.iter().sum::<Duration>(), lengths.iter().max().copied());
        let longest = longest.unwrap_or_default();
        let life = lived(plan(seed, &lengths, 2));
        let of_first = |run: &&StartedRun| run.daemon == life.starts[0].daemon;
        let place = |run: &StartedRun| run.id[1..].parse::<usize>().expect("the place of a job");
        let first: Duration =
            life.starts.iter().filter(of_first).map(|run| lengths[place(run)]).sum();
        let difference = first.abs_diff(total - first);
        // A worker keeps what starts within its window, and the last jobs are not divisible.
        let allowed = total / 10 + longest + 2 * OBEYED;
        assert!(difference <= allowed, "seed {seed}: {first:?} of {total:?}");
    }
}
