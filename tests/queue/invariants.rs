//! What must hold of a topic between any two steps, whatever anybody did.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{Place, RANK, Snapshot, text};

/// Names the first invariant of the contract that a topic violates.
pub(crate) fn violated(topic: &Snapshot) -> Option<&'static str> {
    stages(topic).or_else(|| parts(topic)).or_else(|| graves(topic)).or_else(|| turns(topic))
}

fn stages(topic: &Snapshot) -> Option<&'static str> {
    let pending: BTreeSet<_> = topic.pending.keys().collect();
    let ready: BTreeSet<_> = topic.ready.keys().collect();
    let retry: BTreeSet<_> = topic.retry.keys().collect();
    let unack: BTreeSet<_> = topic.unack.keys().collect();
    let blocked: BTreeSet<_> = topic.blocked_at.keys().collect();
    let behind = [&ready, &retry, &blocked];
    let many = |id: &&Vec<u8>| behind.iter().filter(|stage| stage.contains(id)).count() > 1;

    let tried: BTreeSet<_> = behind.iter().copied().flatten().copied().collect();
    if tried.iter().any(many) {
        return Some("a live push is in exactly one of ready, retry and blocked (1)");
    }
    if tried.intersection(&unack).next().is_some() {
        return Some("ready, retry and blocked never hold a leased id (2)");
    }
    let counted = |id: &&Vec<u8>| tried.contains(*id) || unack.contains(*id);
    if !topic.attempts.keys().all(|id| counted(&id)) {
        return Some("attempts are those of ready, retry, blocked and unack (4)");
    }
    if !topic.errors.keys().all(|id| topic.attempts.contains_key(id)) {
        return Some("an error is that of a failed attempt (4)");
    }
    let waiting: BTreeSet<_> = tried.union(&pending).copied().collect();
    let has_payload = |id: &&Vec<u8>| topic.jobs.contains_key(*id);
    if !waiting.iter().all(has_payload) {
        return Some("what waits has a payload (5)");
    }
    if !topic.jobs.keys().all(|id| waiting.contains(id) || unack.contains(id)) {
        return Some("a payload is that of a live job (5)");
    }
    None
}

fn parts(topic: &Snapshot) -> Option<&'static str> {
    if !topic.opts.keys().all(|id| topic.jobs.contains_key(id)) {
        return Some("options are those of live jobs (5)");
    }
    let members: BTreeSet<_> = topic.blocked_at.values().collect();
    if !members.into_iter().eq(topic.blocked.keys()) {
        return Some("blocked and blocked:at hold the same members (8)");
    }
    if topic.blocked_at.iter().any(|(id, member)| Place::id_of(member) != *id) {
        return Some("an id is at its own place in blocked (8)");
    }
    let score_of = |id: &Vec<u8>| topic.ready.get(id).copied().unwrap_or_default();
    let rank = |id: &Vec<u8>| match topic.opts.get(id).map(|json| String::from_utf8_lossy(json)) {
        Some(json) if json.contains(r#""priority":"high""#) => -RANK,
        Some(json) if json.contains(r#""priority":"low""#) => RANK,
        _ => 0.0,
    };
    // What a newer push supersedes has its old rank.
    let newest = |id: &&Vec<u8>| !topic.pending.contains_key(*id);
    let is_ranked = |id: &Vec<u8>| (0.0..=1e14).contains(&(score_of(id) - rank(id)));
    if !topic.ready.keys().filter(newest).all(is_ranked) {
        return Some("a score in ready is the due time, moved by the priority (10)");
    }
    None
}

fn graves(topic: &Snapshot) -> Option<&'static str> {
    if !topic.dead_jobs.keys().eq(topic.dead.keys()) {
        return Some("dead:jobs has the ids of dead (5)");
    }
    if !topic.dead_info.keys().eq(topic.dead.keys()) {
        return Some("dead:info has the ids of dead (5)");
    }
    if !topic.dead_opts.keys().all(|id| topic.dead.contains_key(id)) {
        return Some("dead:opts are those of dead jobs (5)");
    }
    if !topic.done_info.keys().eq(topic.done.keys()) {
        return Some("done:info has the ids of done (5)");
    }
    let mut parts = topic.done_jobs.keys().chain(topic.done_result.keys());
    if !parts.all(|id| topic.done.contains_key(id)) {
        return Some("done:jobs and done:result are those of done jobs (5)");
    }
    None
}

fn turns(topic: &Snapshot) -> Option<&'static str> {
    let mut held: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (id, turn) in &topic.turns_of {
        let space = turn.iter().position(|byte| *byte == b' ').unwrap_or(0);
        *held.entry(&turn[space + 1..]).or_default() += 1;
        let Snapshot { ready, retry, unack, .. } = topic;
        if ![ready, retry, unack].iter().any(|stage| stage.contains_key(id)) {
            return Some("a turn is held by a job in ready, retry or unack (8)");
        }
    }
    let counted = topic.turns.iter().map(|(key, count)| (key.as_slice(), text(count) as usize));
    if !counted.eq(held.iter().map(|(key, count)| (*key, *count))) {
        return Some("turns counts the turns that are held (8)");
    }
    // Without held permits no job waits for one, whatever the limit.
    let line_moves = |member: &Vec<u8>| held.contains_key(Place::of(member).key.as_slice());
    if !topic.blocked.keys().all(line_moves) {
        return Some("a line waits only while turns of its key are held (8)");
    }
    None
}

/// As above, where `per_key` has been the same since the topic was last empty: every turn of a key is
/// held while anybody stands in its line, and no more turns than there are.
pub(crate) fn lines_violated(topic: &Snapshot) -> Option<&'static str> {
    let most = topic.number("per_key")?;
    let turns = |key: &[u8]| topic.turns.get(key).map_or(0.0, |count| text(count));
    if topic.turns.values().any(|count| text(count) > most) {
        return Some("no key has more turns than the rules give it (8)");
    }
    let waits_rightly = |member: &Vec<u8>| turns(&Place::of(member).key) >= most;
    if !topic.blocked.keys().all(waits_rightly) {
        return Some("a line waits only while all turns of its key are held (8)");
    }
    None
}
