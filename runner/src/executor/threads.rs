//! The threads that run guests. Every job starts on an interactive thread; jobs that take long move to the
//! long-running threads. The kernel gives long-running threads the CPU time that the interactive threads
//! and the rest of the process leave, and about a tenth otherwise. Under a CPU quota they leave a part of it
//! as well. A new job therefore finds a thread at once, whatever other guests compute.

use std::sync::Arc;
use std::time::Duration;

use duebox_sandbox::thread_cpu_time;
use tokio::runtime::{Builder, Handle, Runtime};
use tracing::debug;

use super::cpu_quota::CpuQuota;
use super::fair_semaphore::FairSemaphore;
use super::scheduler_attributes;

/// CPU time of a task on an interactive thread before it moves, and on a long-running thread before another
/// topic's task runs.
pub const TIME_SLICE: Duration = Duration::from_millis(2);

/// Polls between two checks of timers and sockets. A computing guest takes 2 ms a poll, so Tokio's default
/// of 61 would delay the timers of other guests by more than 100 ms.
const POLLS_PER_DRIVER_CHECK: u32 = 1;

/// A long-running thread takes every second task from those that other threads gave it: a task that moves there would
/// otherwise wait for up to 61 polls of 2 ms of the tasks that compute there, and longer under a CPU quota.
const POLLS_PER_ARRIVAL_CHECK: u32 = 2;

/// The most threads for guests' file access on either runtime; they are started on demand.
const FILE_THREADS: usize = 8;

/// The niceness of long-running threads. At 10, a waking thread with niceness 0 preempts them, and gets
/// nine times their share of a contended core.
const NICENESS: i32 = 10;

/// The kernel's time slice of a long-running thread, after which a waking thread may run: long enough for
/// progress, short enough to go unnoticed.
const KERNEL_SLICE: Duration = Duration::from_micros(100);

/// The guests' runtimes.
pub struct GuestThreads {
    interactive: Runtime,
    long_running: Runtime,
}

/// Handles of the guests' runtimes. Clones are the same runtimes.
#[derive(Clone)]
pub struct Threads {
    /// Where tasks start.
    pub interactive: Handle,
    /// Where tasks continue after their time slice.
    pub long_running: Handle,
    /// The number of threads of each kind.
    pub each: usize,
    /// One permit for each long-running thread.
    pub long_running_permits: FairSemaphore,
    /// What long-running threads leave of the CPU quota.
    pub cpu_quota: Arc<CpuQuota>,
    /// The CPU time that the calling thread has used. A simulation uses none.
    pub cpu_time: fn() -> Duration,
}

impl GuestThreads {
    /// Starts `each` interactive threads, and as many long-running ones.
    ///
    /// # Errors
    /// If the system cannot start them.
    pub fn start(each: usize) -> std::io::Result<Self> {
        let mut interactive = Builder::new_multi_thread();
        interactive.thread_name("guest").enable_all().event_interval(POLLS_PER_DRIVER_CHECK);
        interactive.max_blocking_threads(FILE_THREADS);
        let mut long_running = Builder::new_multi_thread();
        long_running.thread_name("guest-slow").on_thread_start(lower_priority);
        long_running.max_blocking_threads(FILE_THREADS);
        long_running.global_queue_interval(POLLS_PER_ARRIVAL_CHECK);
        Ok(Self {
            interactive: interactive.worker_threads(each).build()?,
            long_running: long_running.worker_threads(each).build()?,
        })
    }

    /// The handles of the threads.
    pub fn threads(&self, each: usize) -> Threads {
        Threads {
            interactive: self.interactive.handle().clone(),
            long_running: self.long_running.handle().clone(),
            each,
            long_running_permits: FairSemaphore::new(each, 0),
            cpu_quota: CpuQuota::new(each),
            cpu_time: thread_cpu_time,
        }
    }

    /// Stops the threads; running guests are dropped where they yield.
    pub fn shutdown(self) {
        self.long_running.shutdown_background();
        self.interactive.shutdown_background();
    }
}

/// Lowers the priority of the calling thread. If that is refused, only the runtimes are separate.
fn lower_priority() {
    // Without the system call, or where seccomp forbids it, set the niceness at least. Linux keeps it per
    // thread, where `None` is the calling one; elsewhere it would be that of the whole process.
    let nice = |error: std::io::Error| {
        if cfg!(target_os = "linux") {
            Ok(rustix::process::setpriority_process(None, NICENESS)?)
        } else {
            Err(error)
        }
    };
    if let Err(error) = scheduler_attributes::set(NICENESS, KERNEL_SLICE).or_else(nice) {
        debug!(%error, "long-running guests run at normal priority");
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_task_that_arrives_waits_for_few_polls_of_the_tasks_that_compute() {
        let threads = GuestThreads::start(1).unwrap();
        let long_running = threads.long_running.handle();
        let (polls, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        for _ in 0..3 {
            let (polls, over) = (Arc::clone(&polls), Arc::clone(&over));
            long_running.spawn(poll_fn(move |context| {
                polls.fetch_add(1, Ordering::SeqCst);
                context.waker().wake_by_ref();
                if over.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
        let (send, arrived) = mpsc::channel();
        let waited = (0..200).map(|_| {
            let (seen, send) = (Arc::clone(&polls), send.clone());
            long_running.spawn(async move { send.send(seen.load(Ordering::SeqCst)).unwrap() });
            let spawned = polls.load(Ordering::SeqCst);
            let seen = arrived.recv_timeout(Duration::from_secs(60)).unwrap();
            seen.saturating_sub(spawned)
        });
        // The first one arrives behind the tasks that compute.
        let longest = waited.skip(1).max().unwrap();
        over.store(true, Ordering::SeqCst);
        threads.shutdown();
        assert!(longest <= 4, "{longest} polls");
    }
}
