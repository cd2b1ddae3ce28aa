//! Looking at jobs, repairing them by hand and pushing them, on the command line: the real binary and
//! a real Redis.
#![allow(clippy::unwrap_used, reason = "a test that cannot start its binary has failed")]

mod ground;

mod dead;
mod look;
mod push;
mod refusal;
