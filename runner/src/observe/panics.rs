//! Panics of this process. Each is a bug: the log names its place, and a metric counts it. What it stopped is
//! started again by [`Supervision`](super::supervision::Supervision), or the process is aborted.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tracing::error;

use super::counters::{add, read};

/// How long an abort waits for the thread that writes the log.
const LOG_WRITTEN_IN: Duration = Duration::from_millis(100);
/// The longest reason, in bytes.
const REASON_MAX: usize = 512;

static PANICS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The last panic of this thread.
    static LAST: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// A panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panic {
    /// File, line and column.
    pub place: String,
    /// Its message.
    pub reason: String,
}

/// Logs and counts every panic from now on.
pub fn log_all() {
    panic::set_hook(Box::new(|info| {
        let panic = Panic::of(info);
        add(&PANICS, 1);
        let thread = thread::current();
        let thread = thread.name().unwrap_or_default();
        error!(
            place = panic.place,
            thread,
            reason = panic.reason,
            "panicked: this is a bug in Duebox"
        );
        // A panic while the thread ends has no place to be remembered in.
        drop(LAST.try_with(|last| last.replace(Some(panic))));
    }));
}

/// The number of panics so far.
pub fn count() -> u64 {
    read(&PANICS)
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let reason = info.payload_as_str().unwrap_or("no message");
        let reason = &reason[..reason.floor_char_boundary(REASON_MAX)];
        Self { place, reason: reason.to_owned() }
    }

    /// The panic that was just caught on this thread.
    pub(super) fn caught(payload: &(dyn Any + Send)) -> Self {
        LAST.try_with(|last| last.take()).ok().flatten().unwrap_or_else(|| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Self {
                place: "an unknown place".to_owned(),
                reason: text.unwrap_or("no message").to_owned(),
            }
        })
    }
}

/// Runs a future; a panic ends it.
///
/// # Errors
/// [`Panic`] if it panicked.
pub async fn catch<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    // The panic drops the future; what it shares with others is theirs to judge.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|payload| Panic::caught(&*payload))
}

/// Runs a future; a panic aborts the process. For code whose state others rely on.
pub async fn or_abort<T>(what: &str, work: impl Future<Output = T>) -> T {
    match catch(work).await {
        Ok(value) => value,
        Err(panic) => abort(what, &panic),
    }
}

/// The same for code that blocks.
pub fn or_abort_blocking<T>(what: &str, work: impl FnOnce() -> T) -> T {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => abort(what, &Panic::caught(&*payload)),
    }
}

/// Aborts the process. Redis has all jobs: their leases expire, and another runner or the next start runs
/// them.
fn abort(what: &str, panic: &Panic) -> ! {
    thread::sleep(LOG_WRITTEN_IN);
    let Panic { place, reason } = panic;
    let line = format!(
        "duebox: aborted: {what} panicked at {place}: {reason}\n\
         hint: its state cannot be trusted any more. No job is lost: the leases expire, and the next start or \
         another runner runs the jobs. Restart the daemon, and report the bug\n"
    );
    drop(std::io::stderr().write_all(line.as_bytes()));
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_caught_panic_tells_its_reason() {
        let caught = catch(async { assert!(std::hint::black_box(false), "no {}", "luck") }).await;
        assert!(caught.unwrap_err().reason.contains("no luck"));
        assert_eq!(catch(async { 7 }).await, Ok(7));
    }
}
