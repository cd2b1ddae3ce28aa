//! The clock of QuickJS's C library.
//!
//! Invariant: while the program is evaluated there is no job, and time stands still.

use std::cell::RefCell;

use duebox_engine_abi as abi;

/// The key of the current time, in Unix milliseconds.
const NOW: u32 = 8;

thread_local! {
    static JOB: RefCell<bool> = const { RefCell::new(false) };
}

/// From now on there is a job.
pub(crate) fn begin_job() {
    JOB.set(true);
}

/// The microseconds since 1970.
#[unsafe(no_mangle)]
extern "C" fn __rquickjs_host_now_us() -> f64 {
    match JOB.with_borrow(|job| *job) {
        true => abi::number(NOW) as f64 * 1_000.0,
        false => 0.0,
    }
}
