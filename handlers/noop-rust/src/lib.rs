//! The smallest handler of the Rust SDK: it acks and looks at nothing. Benchmarks run it, so what it
//! costs is what Duebox costs. Invariant: it never asks the host for memory.

use duebox_sdk::{Job, Verdict};

duebox_sdk::handler!(ack);

fn ack(_job: Job) -> Verdict {
    Verdict::Ack
}
