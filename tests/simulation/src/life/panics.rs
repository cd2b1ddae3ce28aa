//! A panic anywhere in a life is a violation. Tokio keeps those of its tasks to itself, and the executor those
//! of a job, so the hook for panics records them.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// The panics of the life that this thread lives.
    static PANICS: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Does some work; returns its result, if it has one, and the panics of this thread.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> (Option<T>, Vec<String>) {
    HOOK.call_once(set_hook);
    PANICS.set(Some(Vec::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(work)).ok();
    (result, PANICS.take().unwrap_or_default())
}

/// Records panics of lives, and leaves all others to the former hook.
fn set_hook() {
    let former = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_recorded = PANICS.with_borrow_mut(|panics| {
            panics.as_mut().map(|panics| panics.push(info.to_string())).is_some()
        });
        if !is_recorded {
            former(info);
        }
    }));
}
