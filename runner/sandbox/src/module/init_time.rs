//! The time limit for code of a handler that runs while the handler is loaded, before any job.
//!
//! CPU time is limited, so that a busy machine, or a container with half a core, accepts the same handlers as an idle
//! one. The wall-clock limit ends code that waits instead of computing.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use crate::instance::cpu_time::thread_cpu_time;

/// The limit of CPU time.
const CPU_MAX: Duration = Duration::from_secs(10);
/// The limit of wall-clock time.
pub(super) const WALL_MAX: Duration = Duration::from_secs(60);

/// Why `work` has not ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, wall) = (CPU_MAX.as_secs(), WALL_MAX.as_secs());
        write!(f, "it did not end within {cpu} s of CPU time and {wall} s in all")
    }
}

/// Runs `work` until it ends or has used up its time. All CPU time of this thread counts, so `work` needs a thread of
/// its own. It must yield while it computes.
///
/// # Errors
/// [`TooSlow`] if `work` has used up its time.
pub(super) async fn limited<T>(work: impl Future<Output = T>) -> Result<T, TooSlow> {
    limited_to(CPU_MAX, WALL_MAX, work).await
}

async fn limited_to<T>(
    cpu_max: Duration,
    wall_max: Duration,
    work: impl Future<Output = T>,
) -> Result<T, TooSlow> {
    let (mut work, began, cpu_before) = (pin!(work), Instant::now(), thread_cpu_time());
    loop {
        let cpu_left = cpu_max.checked_sub(thread_cpu_time().saturating_sub(cpu_before));
        let wall_left = wall_max.checked_sub(began.elapsed());
        let (Some(cpu_left), Some(wall_left)) = (cpu_left, wall_left) else { return Err(TooSlow) };
        // The thread may have had less CPU time than this when the timer fires.
        if let Ok(done) = tokio::time::timeout(cpu_left.min(wall_left), work.as_mut()).await {
            return Ok(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap_or_else(|error| panic!("{error}")).block_on(work)
    }

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(300);

    #[test]
    fn time_in_which_nothing_is_computed_counts_only_as_a_whole() {
        let waits = || async { tokio::time::sleep(SHORT * 10).await };
        assert_eq!(run(limited_to(SHORT, LONG, waits())), Ok(()));
        assert_eq!(run(limited_to(LONG, SHORT, waits())), Err(TooSlow));
    }

    #[test]
    fn what_computes_ends_after_its_cpu_time() {
        let computes = async {
            loop {
                tokio::task::yield_now().await;
            }
        };
        let before = thread_cpu_time();
        assert_eq!(run(limited_to::<()>(SHORT, LONG, computes)), Err(TooSlow));
        assert!(thread_cpu_time() - before >= SHORT);
    }
}
