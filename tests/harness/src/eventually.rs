//! Waiting for a condition. Tests do not sleep for a guessed time. They state the condition, and
//! the timeout is generous, because a loaded machine is slow.

use std::thread;
use std::time::{Duration, Instant};

const POLL_MIN: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);

/// How long a test waits for a condition: `DUEBOX_TEST_PATIENCE` in whole seconds, 180 by default. What takes 20 s on an
/// idle machine takes a minute next to other suites and compilers.
///
/// # Panics
/// If the variable is not a positive whole number.
pub fn patience() -> Duration {
    const NAME: &str = "DUEBOX_TEST_PATIENCE";
    let Ok(text) = std::env::var(NAME) else { return Duration::from_secs(180) };
    match text.parse() {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => panic!("{NAME} is {text:?}; give a whole number of seconds above 0, such as 60"),
    }
}

/// Polls `condition` until it is true.
///
/// # Panics
/// If the condition is still false after [`patience`]. The message contains `what`.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    let mut pause = POLL_MIN;
    while !condition() {
        assert!(
            started.elapsed() < patience(),
            "timed out after {:.1} s waiting for: {what}",
            started.elapsed().as_secs_f64()
        );
        thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// `eventually!(condition)` or `eventually!(condition, "what {}", words)`: polls an expression
/// until it is true. The expression may use `.await`; the pause between two polls blocks its thread
/// for at most 50 ms.
#[macro_export]
macro_rules! eventually {
    ($condition:expr $(,)?) => {
        $crate::eventually!($condition, "{}", stringify!($condition))
    };
    ($condition:expr, $($what:tt)+) => {{
        let started = ::std::time::Instant::now();
        let mut pause_ms = 1;
        while !$condition {
            assert!(
                started.elapsed() < $crate::patience(),
                "timed out after {:.1} s waiting for: {}",
                started.elapsed().as_secs_f64(),
                format_args!($($what)+),
            );
            ::std::thread::sleep(::std::time::Duration::from_millis(pause_ms));
            pause_ms = (pause_ms * 2).min(50);
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut polls = 0;
        eventually("the third poll", || {
            polls += 1;
            polls == 3
        });
        eventually!({
            polls += 1;
            polls > 5
        });
        assert_eq!(polls, 6);
    }
}
