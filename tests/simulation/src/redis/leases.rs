//! Which leases begin and end in a script: what it adds to the sorted set of leases, and what it removes.

use std::collections::HashSet;

use super::database::{Bytes, Database, Stored};
use super::interpreter::Reach;
use super::zset;

/// What one crash adds to the attempts of a job, as the scripts count them.
const CRASH: f64 = 1e6;

/// The beginning or the end of a lease. An extension is neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseEvent {
    /// A job is leased.
    Began {
        /// The job.
        id: String,
        /// Its topic is paused.
        is_paused: bool,
        /// It does not start at once: it is leased ahead of the jobs that do.
        is_ahead: bool,
    },
    /// The end of its lease is counted as a crash. The end itself follows or precedes.
    CrashCounted {
        /// The job.
        id: String,
    },
    /// Its lease has ended.
    Ended {
        /// The job.
        id: String,
        /// A runner's verdict has ended it.
        by_verdict: bool,
    },
}

/// Whether a word of a call is a verdict.
pub(crate) fn is_verdict(word: &[u8]) -> bool {
    matches!(word, b"ack" | b"nack" | b"finish" | b"snooze" | b"drop" | b"release")
}

/// Whether a call only begins leases or extends them: it has the id of a daemon's lease call (`d-NUMBER:NUMBER`) or the
/// holder of a renewal (`d-NUMBER`).
pub(super) fn only_leases(words: &[Bytes]) -> bool {
    words.iter().any(|word| word.starts_with(b"d-"))
}

/// The jobs that are leased.
pub(super) fn leased(db: &Database) -> HashSet<String> {
    let keys = db.names().into_iter().filter(|name| name.ends_with(b":unack"));
    let leases = keys.filter_map(|key| db.zset(key).ok().flatten());
    let ids = leases.flat_map(|leases| leases.iter());
    ids.map(|(_, id)| String::from_utf8_lossy(id).into_owned()).collect()
}

/// Notes that a verdict ended the leases that ended from this event on.
pub(super) fn end_by_verdict(events: &mut [LeaseEvent]) {
    for event in events {
        if let LeaseEvent::Ended { by_verdict, .. } = event {
            *by_verdict = true;
        }
    }
}

/// Notes what a command on leases will do. The commands are those that the scripts use.
pub(super) fn watch(reach: &mut Reach, name: &str, words: &[Bytes]) {
    let Reach { db, lease_events, earlier_events, .. } = reach;
    let key = words[1].as_slice();
    match name {
        "ZADD" => {
            let is_paused = is_paused(db, key);
            let first =
                if words.get(2).is_some_and(|word| word.as_slice() == b"NX") { 3 } else { 2 };
            for pair in words[first..].chunks_exact(2) {
                let id = &pair[1];
                if db.zset(key).ok().flatten().is_some_and(|leases| leases.score(id).is_some()) {
                    continue;
                }
                // Such a lease has an odd token.
                let is_ahead = pair[0].last().is_some_and(|digit| digit % 2 == 1);
                let id = String::from_utf8_lossy(id).into_owned();
                let ended = end_of(&pair[1]);
                // It was removed in the same script: it is extended.
                let own = &lease_events[*earlier_events..];
                match own.iter().rposition(|event| *event == ended) {
                    Some(at) => drop(lease_events.remove(*earlier_events + at)),
                    None => lease_events.push(LeaseEvent::Began { id, is_paused, is_ahead }),
                }
            }
        }
        "ZREM" => {
            let ended = words[2..].iter().map(|id| end_of(id));
            lease_events.extend(ended);
        }
        "ZREMRANGEBYSCORE" => {
            let Ok(Some(leases)) = db.zset(key) else { return };
            let ids = zset::within(leases, &words[2], &words[3]);
            lease_events.extend(ids.map(|id| end_of(id)));
        }
        _ => {}
    }
}

/// Notes which crashes a command on the attempts of jobs will count.
pub(super) fn watch_attempts(reach: &mut Reach, name: &str, words: &[Bytes]) {
    if name != "HSET" {
        return;
    }
    let known = reach.db.hash(&words[1]).ok().flatten();
    let crashes = |text: &[u8]| {
        let packed: f64 = String::from_utf8_lossy(text).parse().unwrap_or_default();
        (packed / CRASH) as u64 % 1_000
    };
    for pair in words[2..].chunks_exact(2) {
        let before = known.and_then(|known| known.get(&pair[0])).map_or(0, |text| crashes(text));
        if crashes(&pair[1]) > before {
            let id = String::from_utf8_lossy(&pair[0]).into_owned();
            reach.lease_events.push(LeaseEvent::CrashCounted { id });
        }
    }
}

fn end_of(id: &[u8]) -> LeaseEvent {
    LeaseEvent::Ended { id: String::from_utf8_lossy(id).into_owned(), by_verdict: false }
}

fn is_paused(db: &Database, unack: &[u8]) -> bool {
    let topic = &unack[..unack.len() - "unack".len()];
    let meta = [topic, b"meta"].concat();
    let Some(Stored::Hash(meta)) = db.get(&meta) else { return false };
    meta.get(b"paused".as_slice()).is_some_and(|paused| paused.as_slice() != b"0")
}
