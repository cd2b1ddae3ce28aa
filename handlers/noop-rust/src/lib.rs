//! The smallest handler of the Rust SDK: it acks without reading the job. Benchmarks run it to
//! measure the cost of Duebox itself.
//!
//! Invariant: it never asks the host for memory.

use duebox_sdk::{Job, Verdict};

duebox_sdk::handler!(ack);

fn ack(_job: Job) -> Verdict {
    Verdict::Ack
}
