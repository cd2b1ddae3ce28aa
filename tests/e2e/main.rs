//! End-to-end tests: the real `duebox` binary with a real Redis and real modules. Tests push jobs as applications
//! do, record what they pushed, and compare it with the state of Redis and the log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test, a panic is the report")]
#![allow(clippy::print_stdout, reason = "a test prints its measured figures")]

mod author;
mod deploy;
mod faults;
mod guides;
mod http;
mod operate;
mod page;
mod queue;
mod sandbox;
mod support;
