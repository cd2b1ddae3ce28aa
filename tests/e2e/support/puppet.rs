//! Handlers that do what their payload says, and jobs with options pushed through the command line.

use std::fmt::Write as _;

use duebox_harness::Daemon;

use crate::support::fixture::Fixture;
use crate::support::log::settled_as;

/// Executes its payload letter by letter; see the file.
pub(crate) const PUPPET: &str = include_str!("../../flows/puppet.wat");
/// Logs its payload, gives it as the reason, and fails for good.
pub(crate) const PARROT: &str = include_str!("../../flows/parrot.wat");
/// Pushes three follow-up jobs.
pub(crate) const FAN: &str = include_str!("../../flows/fan.wat");

/// One job with options, due now.
pub(crate) struct PuppetJob {
    pub(crate) id: String,
    pub(crate) payload: String,
    /// JSON, as stored in the queue.
    pub(crate) options: String,
}

/// A job with a key.
pub(crate) fn keyed_job(key: &str, id: &str, payload: &str) -> PuppetJob {
    puppet_job(id, payload, &format!(r#"{{"key":"{key}"}}"#))
}

/// A job with options.
pub(crate) fn puppet_job(id: &str, payload: &str, options: &str) -> PuppetJob {
    PuppetJob { id: id.to_owned(), payload: payload.to_owned(), options: options.to_owned() }
}

/// Pushes jobs with one command, in their order.
pub(crate) fn push_jobs(fixture: &Fixture, topic: &str, jobs: &[PuppetJob]) {
    let mut lines = String::new();
    for PuppetJob { id, payload, options } in jobs {
        writeln!(lines, r#"{{"id":"{id}","payload":"{payload}","options":{options}}}"#).unwrap();
    }
    fixture.write("jobs.ndjson", lines);
    fixture.duebox(&["push", topic, "--jobs", "jobs.ndjson"]);
}

/// The number of jobs that these daemons settled this way, all topics together.
pub(crate) fn count_settled(daemons: &[&Daemon], settled: &str) -> usize {
    daemons.iter().map(|daemon| daemon.count(|line| settled_as(line, settled))).sum()
}
