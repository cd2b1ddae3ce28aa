//! End to end: the real `duebox` binary on a real Redis with real modules. Tests push jobs the way
//! applications do, keep their own ledger of them, and compare it with what lies in Redis and what
//! the log says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![allow(clippy::print_stdout, reason = "measured figures are printed beside the result")]

mod deploy;
mod faults;
mod guides;
mod http;
mod operate;
mod page;
mod queue;
mod sandbox;
mod support;
