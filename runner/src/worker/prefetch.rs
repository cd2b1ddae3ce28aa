//! How many jobs a worker leases ahead of those that run: as many as start within 20 ms. The executor then
//! has jobs during a turn, and each leased job starts soon.
//!
//! The estimate follows the slowest recent job: while a job takes 20 ms or longer, nothing is leased ahead.

use std::time::{Duration, Instant};

use duebox_queue::BATCH_MAX;

/// Jobs are leased ahead for this time. Together with the turn that leases it, a job starts within
/// [`START_WITHIN`].
const WINDOW: Duration = Duration::from_millis(20);
/// A leased job that has not started after this time is released.
pub const START_WITHIN: Duration = Duration::from_millis(40);
/// The most jobs leased ahead: what starts within [`WINDOW`] at 300,000 jobs per second.
const AHEAD_MAX: usize = 6 * BATCH_MAX;
/// The most payload bytes leased ahead: it bounds memory.
const AHEAD_BYTES_MAX: u64 = 2 * LEASED_BYTES_MAX;
/// The most payload bytes leased in one call, unless a single job has more. It bounds memory, and the time
/// for which other topics wait for Redis and the connection.
pub const LEASED_BYTES_MAX: u64 = 4 << 20;
/// A job counts as recent for one to two of these spans.
const SPAN: Duration = Duration::from_millis(500);
/// The weight of the newest payload in the moving average of sizes.
const NEWEST: f64 = 0.03;

/// Durations and payload sizes of a topic's recent jobs.
#[derive(Debug, Default)]
pub struct Prefetch {
    /// The current span and the previous one.
    spans: [Span; 2],
    began: Option<Instant>,
    payload_bytes: f64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Span {
    jobs: usize,
    /// The time in which at least one job ran or waited to run.
    busy: Duration,
    slowest: Duration,
}

impl Prefetch {
    /// Records that `jobs` ended until `now` in `busy` time, the slowest in `slowest`.
    pub fn record_ended(&mut self, jobs: usize, slowest: Duration, busy: Duration, now: Instant) {
        self.roll(now);
        let span = &mut self.spans[0];
        span.jobs += jobs;
        span.busy += busy;
        span.slowest = span.slowest.max(slowest);
    }

    fn roll(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age < SPAN {
            return;
        }
        let before = if age < 2 * SPAN { self.spans[0] } else { Span::default() };
        self.spans = [Span::default(), before];
        self.began = Some(now);
    }

    /// Records the payload size of a leased job, in bytes.
    pub fn record_payload(&mut self, bytes: usize) {
        self.payload_bytes += NEWEST * (bytes as f64 - self.payload_bytes);
    }

    /// Forgets the estimate: leased jobs did not start in time.
    pub fn reset(&mut self) {
        self.spans = Default::default();
    }

    /// How many jobs to lease ahead, if the longest running job has run for `running`. As many as start
    /// within [`WINDOW`] if one of them is as slow as the slowest, and at most as many as ended recently.
    pub fn ahead(&self, running: Duration) -> usize {
        let [current, before] = self.spans;
        let slowest = current.slowest.max(before.slowest).max(running);
        let (jobs, busy) = (current.jobs + before.jobs, current.busy + before.busy);
        if jobs == 0 || busy.is_zero() {
            return 0;
        }
        let left = WINDOW.saturating_sub(slowest).as_secs_f64();
        let starting = jobs as f64 / busy.as_secs_f64() * left;
        let fitting = AHEAD_BYTES_MAX as f64 / self.payload_bytes.max(1.0);
        (starting as usize).min(jobs).min(AHEAD_MAX).min(fitting as usize)
    }

    /// The most jobs to lease in one call, given the size of their payloads.
    pub fn call_max(&self) -> usize {
        let jobs = LEASED_BYTES_MAX as f64 / self.payload_bytes.max(1.0);
        (jobs as usize).clamp(1, BATCH_MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const US: Duration = Duration::from_micros(1);

    #[test]
    fn jobs_are_leased_ahead_as_fast_as_they_end() {
        let (mut prefetch, now) = (Prefetch::default(), Instant::now());
        assert_eq!(prefetch.ahead(Duration::ZERO), 0);
        prefetch.record_ended(100, 10 * US, MS, now);
        assert_eq!(prefetch.ahead(Duration::ZERO), 100, "no more than ended");
        prefetch.record_ended(1_000_000, 10 * US, 10 * MS, now);
        assert_eq!(prefetch.ahead(Duration::ZERO), AHEAD_MAX);
        prefetch.reset();
        assert_eq!(prefetch.ahead(Duration::ZERO), 0);
    }

    #[test]
    fn one_slow_job_among_many_stops_prefetch_for_a_while() {
        let (mut prefetch, now) = (Prefetch::default(), Instant::now());
        prefetch.record_ended(10_000, 10 * US, 100 * MS, now);
        prefetch.record_ended(1, 41 * MS, 41 * MS, now);
        assert_eq!(prefetch.ahead(Duration::ZERO), 0);
        prefetch.record_ended(10_000, 10 * US, 100 * MS, now + SPAN);
        assert_eq!(prefetch.ahead(Duration::ZERO), 0);
        prefetch.record_ended(10_000, 10 * US, 100 * MS, now + 2 * SPAN);
        assert!(prefetch.ahead(Duration::ZERO) > 1_000);
    }

    #[test]
    fn a_job_that_runs_long_counts_while_it_runs() {
        let (mut prefetch, now) = (Prefetch::default(), Instant::now());
        prefetch.record_ended(10_000, 10 * US, 100 * MS, now);
        assert!(prefetch.ahead(10 * MS) < prefetch.ahead(Duration::ZERO));
        assert_eq!(prefetch.ahead(WINDOW), 0);
    }

    #[test]
    fn a_delay_of_10_ms_halves_it() {
        let (mut prefetch, now) = (Prefetch::default(), Instant::now());
        prefetch.record_ended(50_000, 10 * MS, 500 * MS, now);
        assert_eq!(prefetch.ahead(Duration::ZERO), 1_000);
    }

    #[test]
    fn large_payloads_are_leased_in_small_calls() {
        let mut prefetch = Prefetch::default();
        assert_eq!(prefetch.call_max(), BATCH_MAX);
        (0..1_000).for_each(|_| prefetch.record_payload(1 << 20));
        assert!((4..=5).contains(&prefetch.call_max()), "{}", prefetch.call_max());
    }

    #[test]
    fn large_payloads_are_not_leased_far_ahead() {
        let (mut prefetch, now) = (Prefetch::default(), Instant::now());
        prefetch.record_ended(1_000_000, 10 * US, 10 * MS, now);
        (0..1_000).for_each(|_| prefetch.record_payload(64 << 10));
        assert!((128..=129).contains(&prefetch.ahead(Duration::ZERO)));
    }

    /// Simulates a worker with one executor task and a turn of 1 ms. No job may start, or still wait, later
    /// than [`START_WITHIN`] plus one turn after its lease.
    fn run(lengths: &[Duration]) -> usize {
        let (start, turn) = (Instant::now(), MS);
        let (mut prefetch, mut now) = (Prefetch::default(), start);
        let (mut next, mut given_back) = (0, 0);
        let mut waiting: std::collections::VecDeque<(usize, Instant)> = Default::default();
        let mut running: Option<(Instant, Duration)> = None;
        let mut ended = Vec::new();
        let mut busy_since = start;
        while next < lengths.len() || !waiting.is_empty() || running.is_some() {
            // A turn: take what ended, release what did not start in time, lease.
            let slowest = ended.iter().copied().max().unwrap_or_default();
            prefetch.record_ended(ended.len(), slowest, now - busy_since, now);
            busy_since = now;
            ended.clear();
            if let Some((job, at)) = waiting.front()
                && now - *at >= START_WITHIN
            {
                next = *job;
                given_back += waiting.len();
                waiting.clear();
                prefetch.reset();
            }
            let age = running.map_or(Duration::ZERO, |(began, _)| now - began);
            let ahead = prefetch.ahead(age);
            let held = waiting.len() + usize::from(running.is_some());
            let room = if waiting.len() > ahead / 2 { 0 } else { (1 + ahead).saturating_sub(held) };
            for _ in 0..room.min(BATCH_MAX).min(lengths.len() - next) {
                waiting.push_back((next, now));
                next += 1;
            }
            // The executor task, until the next turn.
            let until = now + turn;
            while now < until {
                let (began, length) = match running.take() {
                    Some(job) => job,
                    None => {
                        let Some((job, leased_at)) = waiting.pop_front() else { break };
                        assert!(now - leased_at <= START_WITHIN + turn, "job {job} waited");
                        (now, lengths[job])
                    }
                };
                if began + length > until {
                    running = Some((began, length));
                    break;
                }
                now = began + length;
                ended.push(length);
            }
            now = until;
        }
        given_back
    }

    fn quick_or_slow() -> impl Strategy<Value = Duration> {
        prop_oneof![
            8 => (5_u64..500).prop_map(Duration::from_micros),
            1 => (1_u64..20).prop_map(Duration::from_millis),
            1 => (20_u64..200).prop_map(Duration::from_millis),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn jobs_of_any_length_start_in_time_or_are_released(
            quick in 0_usize..400,
            mixed in prop::collection::vec(quick_or_slow(), 1..300),
        ) {
            let mut lengths = vec![10 * US; quick];
            lengths.extend(mixed);
            let given_back = run(&lengths);
            let slow = lengths.iter().filter(|length| **length >= 5 * MS).count();
            prop_assert!(given_back <= 40 * (slow + 1), "{given_back} of {}", lengths.len());
        }

        #[test]
        fn short_jobs_alone_are_never_released(length in 1_u64..200, jobs in 1_usize..5_000) {
            prop_assert_eq!(run(&vec![Duration::from_micros(length); jobs]), 0);
        }
    }
}
