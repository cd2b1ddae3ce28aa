//! Random lives of a few jobs in two topics: every verb, plain producers, rules that change, lost
//! replies, runners that die, follow-ups and time, step by step against the model, the ledger and the
//! invariants.
//!
//! All delays are whole or half hours and time moves by whole hours, so that no due time is ever near
//! the moment at which the test happens to run. `DUEBOX_MODEL_STEPS` sets how many steps in all
//! (default 100,000), `DUEBOX_MODEL_SEED` runs the life of one seed alone.
//!
//! Why no `proptest-state-machine`: it takes steps of a synchronous machine, and a step here is a
//! round trip whose token and clock only Redis knows; a step of it could not name the lease that an
//! earlier one answered. So each step is drawn from a seed of its own and from what the world looks
//! like by then. A life is the list of these seeds: any part of the list is a life too, and a failing
//! one is made short by leaving out seeds while it still fails.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duebox_harness::TestRedis;
use fastrand::Rng;

use crate::life::{ANSWERS, Outcome, World};

/// Steps in all lives.
const STEPS: usize = 100_000;
/// Steps of a life, before it is drained.
const LIFE: usize = 160;
/// One life in so many has a new seed, so that the suite learns.
const FRESH: usize = 8;
/// Threads that live, each on a Redis of its own.
const THREADS: usize = 3;
/// Lives, and time, spent on making a failing one short.
const SHORTER_MAX: usize = 300;
const SHORTEN_MAX: Duration = Duration::from_secs(60);

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, and no whole number")))
}

#[test]
fn random_lives_follow_the_model() {
    let steps = setting("DUEBOX_MODEL_STEPS").map_or(STEPS, |steps| steps as usize);
    if let Some(seed) = setting("DUEBOX_MODEL_SEED") {
        live_all(&AtomicUsize::new(0), &[seed], &Mutex::default());
        return;
    }
    let seed_of = |life: usize| {
        if life.is_multiple_of(FRESH) { fastrand::u64(..) } else { life as u64 }
    };
    let seeds: Vec<u64> = (1..=steps.div_ceil(LIFE)).map(seed_of).collect();
    let (next, seen) = (AtomicUsize::new(0), Mutex::default());
    let failed = std::thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(|| live_all(&next, &seeds, &seen)));
        threads.into_iter().filter_map(|thread| thread.join().err()).count()
    });
    assert_eq!(failed, 0, "a life failed; it is shown above");
    let seen = seen.into_inner().unwrap();
    let never: Vec<_> = ANSWERS.into_iter().filter(|answer| !seen.contains(answer)).collect();
    assert!(steps < STEPS || never.is_empty(), "no life ever came to {never:?}");
}

/// Runs the next of these lives, until all have run or one has failed.
fn live_all(next: &AtomicUsize, seeds: &[u64], seen: &Mutex<BTreeSet<&'static str>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = TestRedis::start();
    while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut rng = Rng::with_seed(*seed);
        let steps: Vec<u64> = (0..LIFE).map(|_| rng.u64(..)).collect();
        let lived = runtime.block_on(live(&server, &steps));
        if let Ok(answers) = &lived {
            seen.lock().unwrap().extend(answers);
        }
        if let Err(failure) = lived {
            // The other threads need not go on.
            next.store(seeds.len(), Ordering::Relaxed);
            let again = async |steps: &[u64]| live(&server, steps).await.map(drop);
            let shortest = runtime.block_on(shorten(steps, failure, again));
            let Failure { taken, past, why } = shortest;
            panic!("seed {seed}, made as short as {taken} steps:\n{past}\n{why}");
        }
    }
}

struct Failure {
    /// Steps until it failed.
    taken: usize,
    past: String,
    why: String,
}

/// Lives, and says which replies it came to.
async fn live(server: &TestRedis, steps: &[u64]) -> Result<BTreeSet<&'static str>, Failure> {
    let mut world = World::new(server).await;
    let mut taken = 0;
    let failed = |world: &World, taken, why| Err(Failure { taken, past: world.past(), why });
    for at in 0..2 {
        if let Err(why) = world.begin(at, steps.first().copied().unwrap_or(0)).await {
            return failed(&world, taken, why);
        }
    }
    for seed in steps {
        taken += 1;
        if let Err(why) = step(&mut world, *seed).await {
            return failed(&world, taken, why);
        }
    }
    match world.drain().await {
        Ok(()) => Ok(world.seen),
        Err(why) => failed(&world, taken, why),
    }
}

async fn step(world: &mut World, seed: u64) -> Outcome {
    world.rng = Rng::with_seed(seed);
    world.go_on().await
}

/// Leaves out as many steps of a failing life as can be while it fails: first half of them, and then
/// ever smaller parts.
async fn shorten(
    mut steps: Vec<u64>,
    mut failure: Failure,
    mut live: impl AsyncFnMut(&[u64]) -> Result<(), Failure>,
) -> Failure {
    let began = Instant::now();
    steps.truncate(failure.taken);
    let (mut part, mut tries) = (steps.len().div_ceil(2), 0);
    while part > 0 {
        let mut from = 0;
        while from < steps.len() {
            if tries == SHORTER_MAX || began.elapsed() > SHORTEN_MAX {
                return failure;
            }
            tries += 1;
            let mut fewer = steps.clone();
            fewer.drain(from..(from + part).min(steps.len()));
            match live(&fewer).await {
                Err(shorter) => {
                    fewer.truncate(shorter.taken);
                    (steps, failure) = (fewer, shorter);
                }
                Ok(()) => from += part,
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    failure
}

#[tokio::test]
async fn a_failing_life_is_made_short() {
    // It fails at the last of these steps, if the others have come before it.
    let live = async |steps: &[u64]| {
        let mut rest = steps.iter().enumerate();
        let mut at = |wanted| rest.find(|(_, step)| **step == wanted).map(|(at, _)| at);
        let found = [7, 40, 90].map(&mut at);
        match found[2].filter(|_| found.iter().all(Option::is_some)) {
            Some(last) => Err(Failure {
                taken: last + 1,
                past: format!("{:?}", &steps[..=last]),
                why: String::new(),
            }),
            None => Ok(()),
        }
    };
    let steps: Vec<u64> = (0..100).collect();
    let failure = live(&steps).await.unwrap_err();
    let shortest = shorten(steps, failure, live).await;
    assert_eq!((shortest.taken, shortest.past.as_str()), (3, "[7, 40, 90]"));
}
