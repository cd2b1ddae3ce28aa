//! The threads that guests run on: quick ones, where every job begins, and slow ones, where those go on
//! that take long. The kernel gives slow threads what quick ones, Redis and the bookkeeping leave of a
//! processor, but for a tenth or so. So what begins finds a thread at once, whatever computes beside it.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tracing::debug;

use super::fair_semaphore::FairSemaphore;
use super::scheduler_attributes;

/// How long a lane may keep a quick thread, and a slow one before another topic's lane has its turn.
pub const TIME_SLICE: Duration = Duration::from_millis(2);

/// Turns of a thread between two looks at timers and sockets. A guest that computes takes 2 ms a turn,
/// so tokio's own 61 would let naps and deadlines of its neighbours wait for 100 ms.
const POLLS_PER_DRIVER_CHECK: u32 = 1;

/// The most threads that guests' files are read on, beside either kind: they come as they are wanted.
const FILE_THREADS: usize = 8;

/// How nice slow threads are: at 10, a thread of 0 that wakes goes before them, and has nine times as
/// much of a processor that both want.
const NICENESS: i32 = 10;

/// How long a slow thread computes before one that wakes may take its place: long enough for a guest to get
/// on, and no time that anybody would notice.
const KERNEL_SLICE: Duration = Duration::from_micros(100);

/// The guests' threads, as long as they run.
pub struct GuestThreads {
    interactive: Runtime,
    long_running: Runtime,
}

/// Where lanes run. Clones are the same threads.
#[derive(Clone)]
pub struct Threads {
    /// Where they begin.
    pub interactive: Handle,
    /// Where they go on when they take long.
    pub long_running: Handle,
    /// How many threads each of them has.
    pub each: usize,
    /// One pass for each slow thread.
    pub long_running_permits: FairSemaphore,
}

impl GuestThreads {
    /// Starts `each` quick threads and as many slow ones.
    ///
    /// # Errors
    /// Whatever keeps the machine from starting them.
    pub fn start(each: usize) -> std::io::Result<Self> {
        let mut interactive = Builder::new_multi_thread();
        interactive.thread_name("guest").enable_all().event_interval(POLLS_PER_DRIVER_CHECK);
        interactive.max_blocking_threads(FILE_THREADS);
        let mut long_running = Builder::new_multi_thread();
        long_running.thread_name("guest-slow").on_thread_start(lower_priority);
        long_running.max_blocking_threads(FILE_THREADS);
        Ok(Self {
            interactive: interactive.worker_threads(each).build()?,
            long_running: long_running.worker_threads(each).build()?,
        })
    }

    /// Where lanes run.
    pub fn threads(&self, each: usize) -> Threads {
        Threads {
            interactive: self.interactive.handle().clone(),
            long_running: self.long_running.handle().clone(),
            each,
            long_running_permits: FairSemaphore::new(each, 0),
        }
    }

    /// Ends the threads; guests that still run are dropped where they yield.
    pub fn shutdown(self) {
        self.long_running.shutdown_background();
        self.interactive.shutdown_background();
    }
}

/// Makes the thread that calls a slow one. Where that is refused they are only apart from the quick ones.
fn lower_priority() {
    // Where the kernel, or who guards it, has no such call: the niceness at least. Without an id it is the
    // calling thread, of which Linux keeps a niceness of its own.
    let nice = |_| rustix::process::setpriority_process(None, NICENESS);
    if let Err(error) = scheduler_attributes::set(NICENESS, KERNEL_SLICE).or_else(nice) {
        debug!(%error, "slow guests run at the priority of the others");
    }
}
