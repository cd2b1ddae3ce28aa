//! What the tests of flow share: handlers that do what their payload says, and jobs pushed with options
//! through the real command line.

use std::fmt::Write as _;

use duebox_harness::Daemon;

use crate::support::fixture::Ground;
use crate::support::log::settled_as;

/// Does what its payload says, letter by letter (see the file).
pub(crate) const PUPPET: &str = include_str!("../../flows/puppet.wat");
/// Asks for three follow-up jobs.
pub(crate) const FAN: &str = include_str!("../../flows/fan.wat");

/// One job with options, due now.
pub(crate) struct Wish {
    pub(crate) id: String,
    pub(crate) payload: String,
    /// JSON, as the queue holds it.
    pub(crate) options: String,
}

/// A job of a key.
pub(crate) fn keyed(key: &str, id: &str, payload: &str) -> Wish {
    wish(id, payload, &format!(r#"{{"key":"{key}"}}"#))
}

/// A job with options.
pub(crate) fn wish(id: &str, payload: &str, options: &str) -> Wish {
    Wish { id: id.to_owned(), payload: payload.to_owned(), options: options.to_owned() }
}

/// Pushes jobs with one command, in their order.
pub(crate) fn push_wishes(ground: &Ground, topic: &str, wishes: &[Wish]) {
    let mut lines = String::new();
    for Wish { id, payload, options } in wishes {
        writeln!(lines, r#"{{"id":"{id}","payload":"{payload}","options":{options}}}"#).unwrap();
    }
    ground.write("jobs.ndjson", lines);
    ground.duebox(&["push", topic, "--jobs", "jobs.ndjson"]);
}

/// How many jobs these daemons have settled so, of all topics.
pub(crate) fn count_settled(daemons: &[&Daemon], settled: &str) -> usize {
    daemons.iter().map(|daemon| daemon.count(|line| settled_as(line, settled))).sum()
}
