//! The task that keeps a connection to Redis: it makes the next link as soon as one closes. If it panics it
//! starts again with a new link, because all callers wait for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::wire::link::{Endpoint, Link, OpenLink};

/// The longest wait for a further connection.
const RECONNECT_MAX: Duration = Duration::from_secs(2);
/// The first wait before another try to connect, and the least time between two connections.
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// The longest wait before another try to connect.
const RETRY_MAX: Duration = Duration::from_millis(250);
/// The wait after a panic.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// The connection as the task that keeps it sees it.
pub(crate) enum State {
    Up(Link),
    /// It was lost; the next one is being made.
    Connecting,
    /// The last try to connect failed.
    Down(String),
}

/// What became of the task of a connection.
#[derive(Debug, Default)]
pub struct ConnectionTask {
    panics: AtomicU64,
    is_down: AtomicBool,
    #[cfg(test)]
    pub(crate) panics_next: AtomicBool,
}

impl ConnectionTask {
    /// How often it panicked. Each time it was started again.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// True after a panic, until there is a connection again.
    pub fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Keeps the connection while it is used.
    pub(crate) async fn run(
        &self,
        endpoint: Arc<Endpoint>,
        mut open: Option<OpenLink>,
        state: watch::Sender<State>,
    ) {
        let mut number = open.as_ref().map_or(0, |open| open.link.number);
        loop {
            let work = self.keep(&endpoint, &mut open, &mut number, &state);
            let work = AssertUnwindSafe(work).catch_unwind();
            tokio::select! {
                // It never ends.
                _panicked = work => {}
                () = state.closed() => return,
            }
            open = None;
            self.panics.fetch_add(1, Ordering::Relaxed);
            self.is_down.store(true, Ordering::Relaxed);
            state.send_replace(State::Down("the task of the connection panicked".to_owned()));
            tokio::time::sleep(RESTART_AFTER).await;
        }
    }

    async fn keep(
        &self,
        endpoint: &Endpoint,
        open: &mut Option<OpenLink>,
        number: &mut u64,
        state: &watch::Sender<State>,
    ) {
        loop {
            let opened_at = Instant::now();
            if let Some(mut link) = open.take() {
                link.wait_until_closed(&endpoint.settings).await;
                #[cfg(test)]
                assert!(!self.panics_next.swap(false, Ordering::Relaxed), "as a test wants it");
                state.send_replace(State::Connecting);
                tokio::time::sleep(RETRY_FIRST.saturating_sub(opened_at.elapsed())).await;
            }
            *number += 1;
            let link = reconnect(endpoint, *number, state).await;
            self.is_down.store(false, Ordering::Relaxed);
            state.send_replace(State::Up(link.link.clone()));
            *open = Some(link);
        }
    }
}

/// Connects, however often it takes.
async fn reconnect(endpoint: &Endpoint, number: u64, state: &watch::Sender<State>) -> OpenLink {
    let mut wait = RETRY_FIRST;
    loop {
        match OpenLink::open(endpoint, number, RECONNECT_MAX).await {
            Ok(open) => return open,
            Err(error) => state.send_replace(State::Down(error.problem())),
        };
        tokio::time::sleep(wait.mul_f64(0.75 + 0.5 * fastrand::f64())).await;
        wait = (wait * 2).min(RETRY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use duebox_harness::RedisServer;

    use super::*;
    use crate::{ConnectionSettings, Queue};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn after_a_panic_there_is_a_connection_again() {
        let server = RedisServer::start();
        let queue = Queue::connect(&ConnectionSettings::new(server.url()), "duebox").await.unwrap();
        let (task, mut links) = (queue.connection_task(), 0);
        task.panics_next.store(true, Ordering::Relaxed);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        let again = tokio::time::timeout(duebox_harness::patience(), async {
            queue.reconnected(&mut links).await;
            queue.now_ms().await.unwrap();
        });
        again.await.unwrap();
        assert_eq!((task.panics(), task.is_down()), (1, false));
    }
}
