//! Plain producers: they push jobs with `redis-cli` and the two commands in a `MULTI` that every language can
//! send.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use duebox_harness::eventually;

use crate::support::fixture::Fixture;
use crate::support::redis_state::key;

/// Jobs that share a transaction when many are pushed at once.
const TOGETHER: usize = 500;
/// The number of live jobs under load.
const LOAD: usize = 200;

/// One job to push.
pub(crate) struct Push {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) payload: String,
    /// The due time in Unix milliseconds; 0 is now.
    pub(crate) due_ms: u64,
}

/// Pushes each job in its own transaction.
pub(crate) fn push_each(fixture: &Fixture, jobs: &[Push]) {
    let mut script = String::new();
    for Push { topic, id, payload, due_ms } in jobs {
        let (jobs, pending, payload) = (key(topic, "jobs"), key(topic, "pending"), quoted(payload));
        writeln!(script, "MULTI\nHSET {jobs} {id} {payload}\nZADD {pending} {due_ms} {id}\nEXEC")
            .unwrap();
    }
    fixture.redis.pipe(&script);
}

/// Pushes one job, due at this time.
pub(crate) fn push(fixture: &Fixture, topic: &str, id: &str, due_ms: u64) {
    let (topic, id, payload) = (topic.to_owned(), id.to_owned(), "{}".to_owned());
    push_each(fixture, &[Push { topic, id, payload, due_ms }]);
}

/// Pushes one job with a payload, due now.
pub(crate) fn push_payload(fixture: &Fixture, topic: &str, id: &str, payload: &str) {
    let (topic, id, payload) = (topic.to_owned(), id.to_owned(), payload.to_owned());
    push_each(fixture, &[Push { topic, id, payload, due_ms: 0 }]);
}

/// Pushes jobs that are due now with the ids `0`, `1` … and returns the ids.
pub(crate) fn push_many(fixture: &Fixture, topic: &str, count: usize) -> BTreeSet<String> {
    let ids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    push_ids(fixture, topic, &ids);
    ids.into_iter().collect()
}

/// Pushes jobs that are due now under these ids.
pub(crate) fn push_ids(fixture: &Fixture, topic: &str, ids: &[String]) {
    let mut script = String::new();
    for some in ids.chunks(TOGETHER) {
        let jobs: String = some.iter().map(|id| format!(" {id} {{}}")).collect();
        let dues: String = some.iter().map(|id| format!(" 0 {id}")).collect();
        let (jobs_key, pending) = (key(topic, "jobs"), key(topic, "pending"));
        writeln!(script, "MULTI\nHSET {jobs_key}{jobs}\nZADD {pending}{dues}\nEXEC").unwrap();
    }
    fixture.redis.pipe(&script);
}

/// Keeps the topic under load while `work` runs, and returns the pushed ids.
pub(crate) fn under_load(fixture: &Fixture, topic: &str, work: impl FnOnce()) -> BTreeSet<String> {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pushed = scope.spawn(|| keep_pushing(fixture, topic, &over));
        // Ends the load even if `work` panics.
        let end = Over(&over);
        work();
        drop(end);
        pushed.join().unwrap()
    })
}

fn keep_pushing(fixture: &Fixture, topic: &str, over: &AtomicBool) -> BTreeSet<String> {
    let store = fixture.store();
    let mut pushed = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        eventually("the load is worked off", || {
            over.load(Ordering::Relaxed) || store.live_count(topic) < LOAD
        });
        let next = pushed.len();
        let ids: Vec<String> = (next..next + LOAD / 4).map(|n| format!("load-{n}")).collect();
        push_ids(fixture, topic, &ids);
        pushed.extend(ids);
    }
    pushed
}

/// An argument as redis-cli reads it.
fn quoted(text: &str) -> String {
    assert!(!text.contains(['\'', '\n']), "{text:?}");
    format!("'{text}'")
}
