//! What must hold of a topic between any two steps, whatever anybody did.

use std::collections::BTreeSet;

use crate::snapshot::Snapshot;

/// Names the first invariant of the contract that a topic violates.
pub(crate) fn violated(topic: &Snapshot) -> Option<&'static str> {
    let pending: BTreeSet<_> = topic.pending.keys().collect();
    let ready: BTreeSet<_> = topic.ready.keys().collect();
    let retry: BTreeSet<_> = topic.retry.keys().collect();
    let unack: BTreeSet<_> = topic.unack.keys().collect();
    let waiting: BTreeSet<_> = pending.iter().chain(&ready).chain(&retry).copied().collect();
    let has_payload = |id: &&Vec<u8>| topic.jobs.contains_key(*id);

    if ready.intersection(&retry).any(|id| !pending.contains(id)) {
        return Some("a live push is in exactly one place (1, 2)");
    }
    if ready.union(&retry).any(|id| unack.contains(id)) {
        return Some("ready and retry never hold a leased id (2)");
    }
    let counted = |id: &&Vec<u8>| ready.contains(id) || retry.contains(id) || unack.contains(id);
    if !topic.attempts.keys().all(|id| counted(&id)) {
        return Some("attempts are those of ready, retry and unack (4)");
    }
    if !topic.opts.keys().all(|id| has_payload(&id)) {
        return Some("options are those of live jobs (5)");
    }
    if !waiting.iter().all(has_payload) {
        return Some("what waits has a payload (5)");
    }
    if !topic.jobs.keys().all(|id| waiting.contains(id) || unack.contains(id)) {
        return Some("a payload is that of a live job (5)");
    }
    let dead: Vec<_> = topic.dead.keys().collect();
    if !topic.dead_jobs.keys().eq(dead.iter().copied()) {
        return Some("dead:jobs has the ids of dead (5)");
    }
    if !topic.dead_info.keys().eq(dead.iter().copied()) {
        return Some("dead:info has the ids of dead (5)");
    }
    if !topic.dead_opts.keys().all(|id| topic.dead.contains_key(id)) {
        return Some("dead:opts are those of dead jobs (5)");
    }
    None
}
