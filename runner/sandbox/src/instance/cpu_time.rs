//! The processor's time that a job takes. The thread's own clock is a call of the kernel, 1.1 µs on a
//! virtual machine, and two of them a job; the wall clock takes 0.04 µs, and says the same of a
//! stretch in which nothing else got the thread. So the first stretch, which is all that a short job has
//! and ends within a tick, goes by the wall clock, and every later one by the thread's; the microseconds
//! after the last one, in which nobody gives way, by the wall clock again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What a job has taken so far.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) began: Instant,
    gave_way: bool,
    /// What is counted, and until when.
    taken: Duration,
    until: Instant,
}

impl Processor {
    /// A job begins.
    pub(crate) fn start() -> Self {
        let began = Instant::now();
        Self { began, gave_way: false, taken: Duration::ZERO, until: began }
    }

    /// Polls the job, and counts the stretch that it takes if it gives way, or has done so before.
    pub(crate) fn poll<F: Future>(
        &mut self,
        job: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let before = self.gave_way.then(thread_time);
        let polled = job.poll(context);
        if before.is_some() || polled.is_pending() {
            self.until = Instant::now();
            self.taken += match before {
                None => self.until - self.began,
                Some(before) => thread_time().saturating_sub(before),
            };
            self.gave_way = true;
        }
        polled
    }

    /// What passed since the job began, and what it took of a processor.
    pub(crate) fn finish(&self) -> (Duration, Duration) {
        let now = Instant::now();
        (now - self.began, self.taken + (now - self.until))
    }
}

/// What this thread has had of a processor since it started. To ask takes a microsecond.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
