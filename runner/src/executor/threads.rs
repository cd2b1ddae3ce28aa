//! The threads that guests run on: quick ones, where every job begins, and slow ones, where those go on
//! that take long. The kernel gives slow threads what quick ones, Redis and the bookkeeping leave of a
//! processor, but for a tenth or so. So what begins finds a thread at once, whatever computes beside it.

use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tracing::debug;

use super::fair_semaphore::Gate;
use super::scheduler_attributes;

/// How long a lane may keep a quick thread, and a slow one before another topic's lane has its turn.
pub const TURN_MAX: Duration = Duration::from_millis(2);

/// Turns of a thread between two looks at timers and sockets. A guest that computes takes 2 ms a turn,
/// so tokio's own 61 would let naps and deadlines of its neighbours wait for 100 ms.
const TURNS_A_LOOK: u32 = 1;

/// The most threads that guests' files are read on, beside either kind: they come as they are wanted.
const FILE_THREADS: usize = 8;

/// How nice slow threads are: at 10, a thread of 0 that wakes goes before them, and has nine times as
/// much of a processor that both want.
const NICENESS: i32 = 10;

/// How long a slow thread computes before one that wakes may take its place: long enough for a guest to get
/// on, and no time that anybody would notice.
const SLICE: Duration = Duration::from_micros(100);

/// The guests' threads, as long as they run.
pub struct GuestThreads {
    quick: Runtime,
    slow: Runtime,
}

/// Where lanes run. Clones are the same threads.
#[derive(Clone)]
pub struct Threads {
    /// Where they begin.
    pub quick: Handle,
    /// Where they go on when they take long.
    pub slow: Handle,
    /// How many threads each of them has.
    pub each: usize,
    /// One pass for each slow thread.
    pub turns: Gate,
}

impl GuestThreads {
    /// Starts `each` quick threads and as many slow ones.
    ///
    /// # Errors
    /// Whatever keeps the machine from starting them.
    pub fn start(each: usize) -> std::io::Result<Self> {
        let mut quick = Builder::new_multi_thread();
        quick.thread_name("guest").enable_all().event_interval(TURNS_A_LOOK);
        quick.max_blocking_threads(FILE_THREADS);
        let mut slow = Builder::new_multi_thread();
        slow.thread_name("guest-slow").on_thread_start(stand_back);
        slow.max_blocking_threads(FILE_THREADS);
        Ok(Self {
            quick: quick.worker_threads(each).build()?,
            slow: slow.worker_threads(each).build()?,
        })
    }

    /// Where lanes run.
    pub fn threads(&self, each: usize) -> Threads {
        Threads {
            quick: self.quick.handle().clone(),
            slow: self.slow.handle().clone(),
            each,
            turns: Gate::new(each, 0),
        }
    }

    /// Ends the threads; guests that still run are dropped where they yield.
    pub fn shutdown(self) {
        self.slow.shutdown_background();
        self.quick.shutdown_background();
    }
}

/// Makes the thread that calls a slow one. Where that is refused they are only apart from the quick ones.
fn stand_back() {
    // Where the kernel, or who guards it, has no such call: the niceness at least. Without an id it is the
    // calling thread, of which Linux keeps a niceness of its own.
    let nice = |_| rustix::process::setpriority_process(None, NICENESS);
    if let Err(error) = scheduler_attributes::set(NICENESS, SLICE).or_else(nice) {
        debug!(%error, "slow guests run at the priority of the others");
    }
}
