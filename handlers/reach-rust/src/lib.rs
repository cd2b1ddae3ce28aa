//! Sends requests and keeps values as a conformance case asks, with the Rust SDK alone. It is
//! separate from `echo-rust` because a module that imports `http_send` or `kv_get` runs only if the
//! topic grants it. The steps are in the header `script`, as for `echo-rust`;
//! `tests/conformance/README.md` describes each.
//!
//! Invariant: `reach-go` and `reach-as` log the same text for every step.

mod network;
mod store;

use duebox_sdk::{Job, Verdict};

use crate::network::Network;

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Result<Verdict, Verdict> {
    let mut network = Network::default();
    for line in job.header("script").unwrap_or_default().split("; ") {
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        if network.step(&job, step, rest)? || store::step(&job, step, rest)? {
            continue;
        }
        match step {
            "verdict" => return Ok(network.last.verdict()),
            "ack" => return Ok(Verdict::Ack),
            "nack" => return Ok(Verdict::nack(rest)),
            unknown => return Err(Verdict::drop(format!("unknown step {unknown:?}"))),
        }
    }
    Ok(Verdict::Ack)
}
