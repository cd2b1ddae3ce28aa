//! Log lines of a handler. They appear in the daemon's log with topic, job and attempt; lines over
//! the topic's budget (`sandbox.log`) are dropped and counted.

use crate::abi;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something is broken.
    Error = 0,
    /// Something is odd.
    Warn = 1,
    /// What was done.
    Info = 2,
    /// For whoever looks into a problem.
    Debug = 3,
    /// Every step.
    Trace = 4,
}

/// Writes one log line. The macros [`error!`](crate::error) to [`trace!`](crate::trace) format it.
pub fn line(level: Level, text: &str) {
    abi::log(level, text);
}

/// Logs what is broken, formatted as by `format!`.
#[macro_export]
macro_rules! error {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Error, &::std::format!($($part)+)) };
}

/// Logs what is odd, formatted as by `format!`.
#[macro_export]
macro_rules! warn {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Warn, &::std::format!($($part)+)) };
}

/// Logs what was done, formatted as by `format!`.
#[macro_export]
macro_rules! info {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Info, &::std::format!($($part)+)) };
}

/// Logs for whoever looks into a problem, formatted as by `format!`.
#[macro_export]
macro_rules! debug {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Debug, &::std::format!($($part)+)) };
}

/// Logs every step, formatted as by `format!`.
#[macro_export]
macro_rules! trace {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Trace, &::std::format!($($part)+)) };
}
