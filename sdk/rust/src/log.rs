//! A handler's log lines. They appear in the daemon's log with topic, job and attempt. Lines beyond
//! the topic's limit (`sandbox.log`) are dropped and counted.

use crate::abi;

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A failure.
    Error = 0,
    /// Something unexpected.
    Warn = 1,
    /// What the handler did.
    Info = 2,
    /// Details for debugging.
    Debug = 3,
    /// Every step.
    Trace = 4,
}

/// Writes one log line. The macros [`error!`](crate::error) to [`trace!`](crate::trace) format it.
pub fn line(level: Level, text: &str) {
    abi::log(level, text);
}

/// Logs at level error, formatted as by `format!`.
#[macro_export]
macro_rules! error {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Error, &::std::format!($($part)+)) };
}

/// Logs at level warn, formatted as by `format!`.
#[macro_export]
macro_rules! warn {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Warn, &::std::format!($($part)+)) };
}

/// Logs at level info, formatted as by `format!`.
#[macro_export]
macro_rules! info {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Info, &::std::format!($($part)+)) };
}

/// Logs at level debug, formatted as by `format!`.
#[macro_export]
macro_rules! debug {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Debug, &::std::format!($($part)+)) };
}

/// Logs at level trace, formatted as by `format!`.
#[macro_export]
macro_rules! trace {
    ($($part:tt)+) => { $crate::log::line($crate::Level::Trace, &::std::format!($($part)+)) };
}
