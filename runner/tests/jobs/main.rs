//! Inspecting, repairing and pushing jobs on the command line: the real binary and a real Redis.
#![allow(clippy::unwrap_used, reason = "a test that cannot start its binary has failed")]

mod fixture;

mod dead;
mod look;
mod push;
mod refusal;
