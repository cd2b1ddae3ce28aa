//! The processor's time that a job takes. The thread's own clock is a call of the kernel, 1.1 µs on a
//! virtual machine, and two of them a job; the wall clock takes 0.04 µs, and says the same of a
//! stretch in which nothing else got the thread. So the first stretch, which is all that a short job has
//! and ends within a tick, goes by the wall clock, and every later one by the thread's. Of a job that gave way,
//! the microseconds after its last stretch are not counted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// What a job has taken so far.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) began: Instant,
    /// In the stretches that are over, of a job that gave way.
    taken: Duration,
    stretches: u64,
}

impl Processor {
    /// A job begins.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), taken: Duration::ZERO, stretches: 0 }
    }

    /// Polls the job, and counts the stretch that it takes if it gives way.
    pub(crate) fn poll<F: Future>(
        &mut self,
        job: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let before = (self.stretches > 0).then(thread_time);
        let polled = job.poll(context);
        if before.is_some() || polled.is_pending() {
            self.taken += match before {
                None => self.began.elapsed(),
                Some(before) => thread_time().saturating_sub(before),
            };
            self.stretches = self.stretches.saturating_add(1);
        }
        polled
    }

    /// What passed since the job began, and what it took of a processor: of one that never gave way all
    /// that passed.
    pub(crate) fn finish(&self) -> (Duration, Duration) {
        let passed = self.began.elapsed();
        (passed, if self.stretches == 0 { passed } else { self.taken })
    }
}

/// What this thread has had of a processor since it started.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
