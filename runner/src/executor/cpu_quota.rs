//! Long-running guests leave a part of the CPU quota to the other threads.
//!
//! When a cgroup has used its CPU quota (`cpu.max`), the kernel stops all its threads until the next period,
//! whatever their niceness. One guest that computes would so delay every job and heartbeat by up to a period.
//! Before each time slice a long-running thread therefore waits until the whole process is below its target:
//! the quota without a reserve. The slices are spread evenly, so the target holds for every period, wherever
//! it begins.
//!
//! This is a token bucket. It fills at the rate of the target, and the CPU time of all threads drains it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tracing::info;

use super::cpu_limit::CpuLimit;
use super::threads::TIME_SLICE;

/// The part of the quota that long-running guests leave to others. The bucket counts what others use on
/// average; the reserve is for their bursts.
const RESERVE: f64 = 0.25;
/// The largest reserve, in cores.
const RESERVE_MAX: f64 = 0.25;
/// The part of the quota that long-running guests get even if the others use all of it.
const SHARE_MIN: f64 = 0.1;
/// The shortest wait, so that waiting costs little.
const WAIT_MIN: Duration = Duration::from_micros(500);
/// The longest wait, for very small quotas.
const WAIT_MAX: Duration = Duration::from_millis(250);
/// How often the limit is read again: that of a running container can change.
const READ_EVERY: Duration = Duration::from_secs(5);

/// The CPU quota of the process, and how much of it long-running guests may use.
pub struct CpuQuota {
    /// Without a limit nothing is counted.
    is_limited: AtomicBool,
    bucket: Mutex<Bucket>,
    waited_us: AtomicU64,
}

/// The right of a long-running thread to run for a time slice, until it is dropped.
pub(super) struct Slice<'q>(&'q CpuQuota);

/// The token bucket. Its level is in seconds of CPU time.
struct Bucket {
    limit: Option<CpuLimit>,
    level: f64,
    /// When the level was computed last, and the CPU time of the process then.
    at: Instant,
    cpu_time: Duration,
    /// The threads that run a slice.
    running: u32,
    /// When a slice began last.
    begun_at: Instant,
    /// The number of long-running threads.
    threads: u32,
}

impl CpuQuota {
    /// Reads the limit of this process; `threads` is the number of long-running threads.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        let quota = Self::without_limit(threads);
        quota.set(CpuLimit::read());
        Arc::new(quota)
    }

    /// No quota, whatever the limit of this process. For simulations.
    #[doc(hidden)]
    pub fn unlimited() -> Arc<Self> {
        Arc::new(Self::without_limit(1))
    }

    fn without_limit(threads: usize) -> Self {
        Self {
            is_limited: AtomicBool::new(false),
            bucket: Mutex::new(Bucket::new(threads)),
            waited_us: AtomicU64::new(0),
        }
    }

    /// Reads the limit every few seconds.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(READ_EVERY).await;
            self.set(CpuLimit::read());
        }
    }

    /// The limit in cores.
    pub fn cores(&self) -> Option<f64> {
        self.bucket.lock().limit.map(|limit| limit.cores())
    }

    /// How long the long-running threads have waited, all together.
    pub fn waited(&self) -> Duration {
        Duration::from_micros(self.waited_us.load(Ordering::Relaxed))
    }

    fn set(&self, limit: Option<CpuLimit>) {
        let mut bucket = self.bucket.lock();
        if bucket.limit == limit {
            return;
        }
        match limit {
            Some(limit) => info!(
                cores = limit.cores(),
                "the CPU time of this process is limited: long-running guests leave a part to other threads"
            ),
            None => info!("the CPU time of this process is no longer limited"),
        }
        bucket.limit = limit;
        bucket.restart(Instant::now(), process_cpu_time());
        self.is_limited.store(limit.is_some(), Ordering::Relaxed);
    }

    /// Waits until a long-running guest may run for a time slice. It blocks the thread: the others have as
    /// little quota, and a timer would use some of it.
    pub(super) fn begin_slice(&self) -> Option<Slice<'_>> {
        if !self.is_limited.load(Ordering::Relaxed) {
            return None;
        }
        let began = Instant::now();
        loop {
            let begun = self.bucket.lock().begin(Instant::now(), process_cpu_time());
            let Err(wait) = begun else { break };
            thread::sleep(wait);
        }
        let waited = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(waited, Ordering::Relaxed);
        Some(Slice(self))
    }

    /// CPU time in relation to the quota: with half a core, a second counts twice.
    pub(super) fn weigh(&self, time: Duration) -> Duration {
        match self.is_limited.load(Ordering::Relaxed).then(|| self.cores()).flatten() {
            Some(cores) if cores < 1.0 => time.div_f64(cores),
            _ => time,
        }
    }
}

impl Drop for Slice<'_> {
    fn drop(&mut self) {
        self.0.bucket.lock().running -= 1;
    }
}

impl Bucket {
    fn new(threads: usize) -> Self {
        let now = Instant::now();
        let threads = u32::try_from(threads).unwrap_or(u32::MAX);
        let cpu_time = Duration::ZERO;
        Self { limit: None, level: 0.0, at: now, cpu_time, running: 0, begun_at: now, threads }
    }

    fn restart(&mut self, now: Instant, cpu_time: Duration) {
        (self.level, self.at, self.cpu_time) = (0.0, now, cpu_time);
    }

    /// Begins a slice, or returns how long to wait before the next try.
    fn begin(&mut self, now: Instant, cpu_time: Duration) -> Result<(), Duration> {
        if let Some(limit) = self.limit {
            self.fill(&limit, now, cpu_time);
            // The running slices have not used all of their time yet.
            let lacks = (TIME_SLICE * self.running).as_secs_f64() - self.level;
            let since = now.saturating_duration_since(self.begun_at);
            let longest = longest_wait(&limit);
            if lacks > 0.0 && since < longest {
                let wait = Duration::from_secs_f64(lacks / target(&limit));
                return Err(wait.min(longest - since).max(WAIT_MIN));
            }
        }
        self.begun_at = now;
        self.running += 1;
        Ok(())
    }

    fn fill(&mut self, limit: &CpuLimit, now: Instant, cpu_time: Duration) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        let used = cpu_time.saturating_sub(self.cpu_time).as_secs_f64();
        (self.at, self.cpu_time) = (self.at.max(now), self.cpu_time.max(cpu_time));
        // A debt of more than a period has been paid: the kernel stopped the process.
        let (lowest, highest) =
            (-limit.quota.as_secs_f64(), (TIME_SLICE * self.threads).as_secs_f64());
        self.level = (self.level + elapsed * target(limit) - used).clamp(lowest, highest);
    }
}

/// How many cores the process should use at most while guests run long.
fn target(limit: &CpuLimit) -> f64 {
    let cores = limit.cores();
    cores - (cores * RESERVE).min(RESERVE_MAX)
}

/// The longest time between two slices. It gives long-running guests their smallest share.
fn longest_wait(limit: &CpuLimit) -> Duration {
    TIME_SLICE.div_f64(limit.cores() * SHARE_MIN).min(WAIT_MAX)
}

/// The CPU time of all threads since the process started. The call takes about 1 µs.
fn process_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const HALF: CpuLimit =
        CpuLimit { quota: Duration::from_millis(50), period: Duration::from_millis(100) };

    /// A process with a limit in simulated time.
    struct Simulation {
        bucket: Bucket,
        now: Instant,
        cpu_time: Duration,
        /// What guests have used.
        guests: Duration,
    }

    impl Simulation {
        fn new(limit: CpuLimit) -> Self {
            let mut bucket = Bucket::new(1);
            bucket.limit = Some(limit);
            let now = bucket.at;
            Self { bucket, now, cpu_time: Duration::ZERO, guests: Duration::ZERO }
        }

        /// Lets one guest compute for so long next to threads that use this part of a core. Returns the
        /// most CPU time that the process used within one of `limit.period`.
        fn run(&mut self, time: Duration, others: f64, period: Duration) -> Duration {
            let end = self.now + time;
            let mut used = vec![(self.now, self.cpu_time)];
            while self.now < end {
                let (passed, by_guest) = match self.bucket.begin(self.now, self.cpu_time) {
                    Ok(()) => (TIME_SLICE, TIME_SLICE),
                    Err(wait) => (wait, Duration::ZERO),
                };
                self.now += passed;
                self.cpu_time += by_guest + passed.mul_f64(others);
                self.guests += by_guest;
                self.bucket.running = 0;
                used.push((self.now, self.cpu_time));
            }
            let within = |(from, before): &(Instant, Duration)| {
                let inside = used.iter().take_while(|(at, _)| *at <= *from + period);
                inside.last().map_or(Duration::ZERO, |(_, after)| *after - *before)
            };
            used.iter().map(within).max().unwrap()
        }
    }

    #[test]
    fn a_guest_alone_leaves_the_reserve_in_every_period() {
        let mut simulation = Simulation::new(HALF);
        let most = simulation.run(1_000 * MS, 0.0, HALF.period);
        assert!(most <= 40 * MS, "{most:?} in one period");
        assert!(simulation.guests >= 360 * MS, "{:?} in a second", simulation.guests);
    }

    #[test]
    fn what_other_threads_use_is_taken_from_the_guests() {
        let mut simulation = Simulation::new(HALF);
        let most = simulation.run(1_000 * MS, 0.2, HALF.period);
        assert!(most <= 40 * MS, "{most:?} in one period");
        assert!(simulation.guests >= 160 * MS, "{:?} in a second", simulation.guests);
    }

    #[test]
    fn guests_get_a_tenth_of_the_quota_whatever_the_others_use() {
        let mut simulation = Simulation::new(HALF);
        simulation.run(1_000 * MS, 2.0, HALF.period);
        assert!(simulation.guests >= 46 * MS, "{:?} in a second", simulation.guests);
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut simulation = Simulation::new(HALF);
        simulation.now += 10_000 * MS;
        let most = simulation.run(1_000 * MS, 0.0, HALF.period);
        assert!(most <= 42 * MS, "{most:?} in one period");
    }

    #[test]
    fn slices_that_run_count_in_full() {
        let mut simulation = Simulation::new(CpuLimit { quota: 400 * MS, period: 100 * MS });
        simulation.bucket.threads = 4;
        simulation.now += 10 * MS;
        for running in 0..4 {
            assert!(simulation.bucket.begin(simulation.now, Duration::ZERO).is_ok(), "{running}");
        }
        assert_eq!(simulation.bucket.running, 4);
        // All four together have used nothing so far, and could fill the bucket's 8 ms.
        assert!(simulation.bucket.begin(simulation.now, MS).is_err());
    }

    #[test]
    fn the_reserve_has_an_upper_bound() {
        let limit = |cores: u32| CpuLimit { quota: cores * 100 * MS, period: 100 * MS };
        assert_eq!(target(&HALF), 0.375);
        assert_eq!(target(&limit(1)), 0.75);
        assert_eq!(target(&limit(8)), 7.75);
    }

    #[test]
    fn without_a_limit_nothing_waits_or_weighs_more() {
        let quota = CpuQuota::new(1);
        quota.set(None);
        assert!(quota.begin_slice().is_none());
        assert_eq!((quota.weigh(MS), quota.waited(), quota.cores()), (MS, Duration::ZERO, None));
    }

    #[test]
    fn with_a_limit_threads_wait_and_time_weighs_more() {
        let quota = CpuQuota::new(1);
        quota.set(Some(HALF));
        assert_eq!((quota.weigh(MS), quota.cores()), (2 * MS, Some(0.5)));
        // A debt of 2 ms at a rate of 7.5 ms in a second.
        quota.set(Some(CpuLimit { quota: 10 * MS, period: 1_000 * MS }));
        quota.bucket.lock().level = -0.002;
        quota.bucket.lock().begun_at = Instant::now() + 1_000 * MS;
        drop(quota.begin_slice().unwrap());
        assert!(quota.waited() >= WAIT_MIN, "{:?}", quota.waited());
        assert_eq!(quota.bucket.lock().running, 0);
    }
}
