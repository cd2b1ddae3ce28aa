//! Many lives on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::life::{Life, Options, live_until};

/// The longest real time of one life. One of 20 ms took more than 20 s on a machine with 35 busy tasks.
const LIFE_MAX: Duration = Duration::from_secs(120);

/// Which lives are lived.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// How many lives.
    pub lives: u64,
    /// No life begins after this time.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// Ends after so many lives with violations.
    pub violations_max: usize,
}

/// What a campaign found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Lives that were lived.
    pub lives: u64,
    /// Runs of handlers in them.
    pub runs: u64,
    /// Faults in them.
    pub faults: u64,
    /// How often verdicts and leases of a topic were under way at once.
    pub turns_together: u64,
    /// Leases that failovers lost.
    pub lost_leases: u64,
    /// Their own time, all together.
    pub lasted: Duration,
    /// The lives in which something did not hold.
    pub failed: Vec<Life>,
}

impl Campaign {
    /// Lives the lives.
    pub fn run(&self, options: &Options) -> Findings {
        let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let (findings, began) = (Mutex::new(Findings::default()), Instant::now());
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    let watch = Watch::start();
                    while !is_over.load(Ordering::Relaxed)
                        && self.time.is_none_or(|time| began.elapsed() < time)
                    {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.lives {
                            break;
                        }
                        let seed = self.from + number;
                        let life = live_until(seed, options, &watch.begins(seed));
                        let mut findings = findings.lock();
                        findings.add(life);
                        if findings.failed.len() >= self.violations_max {
                            is_over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        findings.into_inner()
    }
}

/// Ends a life that does not end. If it never awaits either, nothing can end it but the process.
struct Watch(Arc<Mutex<Watched>>);

/// The life that a thread lives.
struct Watched {
    seed: u64,
    since: Instant,
    is_too_long: Arc<Notify>,
}

impl Watch {
    fn start() -> Self {
        let watched = Watched { seed: 0, since: Instant::now(), is_too_long: Arc::default() };
        let current = Arc::new(Mutex::new(watched));
        let watched = Arc::downgrade(&current);
        std::thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                current.lock().look();
                drop(current);
                std::thread::sleep(LIFE_MAX / 20);
            }
        });
        Self(current)
    }

    /// A life begins; returns what tells it that it takes too long.
    fn begins(&self, seed: u64) -> Arc<Notify> {
        let is_too_long = Arc::<Notify>::default();
        let its = Arc::clone(&is_too_long);
        *self.0.lock() = Watched { seed, since: Instant::now(), is_too_long: its };
        is_too_long
    }
}

impl Watched {
    fn look(&self) {
        let lasted = self.since.elapsed();
        if lasted > LIFE_MAX {
            self.is_too_long.notify_one();
        }
        if lasted > 2 * LIFE_MAX {
            give_up(self.seed);
        }
    }
}

#[expect(clippy::print_stderr, reason = "its reader is at a terminal")]
fn give_up(seed: u64) {
    eprintln!("seed {seed}: it never awaits; replay it with --seed {seed}");
    std::process::exit(2);
}

impl Findings {
    fn add(&mut self, life: Life) {
        self.lives += 1;
        self.runs += life.starts.len() as u64;
        self.faults += life.faults;
        self.turns_together += life.turns_together;
        self.lost_leases += life.lost_leases;
        self.lasted += life.lasted;
        if !life.violations.is_empty() {
            self.failed.push(life);
        }
    }
}
