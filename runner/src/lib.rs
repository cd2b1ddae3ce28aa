//! The parts of the `duebox` daemon that are no crate of their own.
//!
//! A job's way through them: `poller` wakes the `worker` of its topic, which leases it, runs it in
//! one of its `lanes`, and settles it by the `verdict`. The `scheduler` pushes what the manifest's
//! schedules ask for, and the `relay` what handlers asked for with their ack.

pub mod binding;
pub mod breaker;
pub mod cli;
pub mod company;
pub mod consumed;
pub mod consumer;
pub mod cost;
pub mod counters;
pub mod daemon;
mod due;
pub mod events;
pub mod figures;
pub mod file_limit;
pub mod gate;
pub mod gathered;
pub mod guest_threads;
pub mod handler_log;
pub mod health;
pub mod history;
mod http;
pub mod in_flight;
pub mod keeper;
pub mod kv;
pub mod lanes;
pub mod latest;
mod leased_job;
pub mod lines;
pub mod manifest;
pub mod metrics;
pub mod module_file;
pub mod orders;
pub mod outage;
pub mod pace;
pub mod poke;
pub mod poller;
pub mod pushes;
pub mod record;
pub mod redis_clock;
pub mod redis_server;
pub mod relay;
pub mod schedule;
pub mod scheduler;
pub mod signal;
mod slice;
pub mod smoke;
pub mod status;
pub mod supervisor;
pub mod telemetry;
pub mod timer;
mod timetable;
pub mod tls;
pub mod tokens;
pub mod traces;
mod value;
pub mod verdict;
pub mod watch;
pub mod worker;
mod written_job;
