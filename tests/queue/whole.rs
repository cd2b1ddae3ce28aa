//! Redis does not roll a script back. Every script is called with every key of its topic broken in turn: a
//! call that fails has changed nothing.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::doctor;
use crate::fixture::{Fixture, call};
use crate::script::RawScript;

type Dump = BTreeMap<String, Vec<u8>>;

/// What stands in a key instead of what belongs there.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Broken {
    String,
    List,
    Set,
    Hash,
    Zset,
    Stream,
    /// The right type, with values or scores that no script wrote.
    Garbage,
}

use Broken::{Garbage, Hash, List, Set, Stream, String as Text, Zset};

const KINDS: [Broken; 7] = [Text, List, Set, Hash, Zset, Stream, Garbage];

/// A topic in which every branch of every script has something to do.
struct Topic {
    fixture: Fixture,
    dump: Dump,
    /// The token of the jobs `leased`, `cancelled` and `followed`.
    token: String,
    /// The call that leased them.
    call_id: String,
}

impl Topic {
    async fn new() -> Self {
        let fixture = doctor::sound().await;
        let snapshot = fixture.snapshot();
        let token = (snapshot.unack[b"leased".as_slice()] as u64 + 3_600_000_000).to_string();
        // The leases hold for the whole test.
        for name in ["leased", "cancelled", "followed"] {
            fixture.on_key("ZADD", "unack", &[&token, name]);
        }
        let call_id = call(1).call_id;
        fixture.on_key("ZADD", "holders", &[&token, &call_id]);
        fixture.on_key("ZADD", "holders", &["5", "expired"]);
        // A permit of `k` is held by a leased job, and another job waits for it.
        fixture.on_key("HSET", "jobs", &["held", "p", "waits", "p", "expired", "p", "old", "p"]);
        fixture.on_key("HSET", "opts", &["held", r#"{"key":"k"}"#, "waits", r#"{"key":"k"}"#]);
        fixture.on_key("HSET", "opts", &["old", r#"{"ttl_ms":1}"#]);
        fixture.on_key("ZADD", "unack", &[&token, "held", "5", "expired"]);
        fixture.on_key("HSET", "turns", &["k", "1"]);
        fixture.on_key("HSET", "turns:of", &["held", "1763740800000 k"]);
        let place = "k\x00001763740800000\x000000000000000007\x00waits";
        fixture.on_key("ZADD", "blocked", &["0", place]);
        fixture.on_key("HSET", "blocked:at", &["waits", place]);
        // Due, and to be removed: without a payload, and not started within its ttl.
        fixture.on_key("ZADD", "ready", &["1763740800000", "ghost", "1763740800000", "old"]);
        fixture.plain_push("bad", "p", 5);
        fixture.on_key("ZADD", "retry", &["1763740800001", "expired-retry"]);
        fixture.on_key("HSET", "jobs", &["expired-retry", "p"]);
        fixture.on_key("HSET", "attempts", &["expired-retry", "1", "held", "1"]);
        fixture.on_key("HSET", "errors", &["expired-retry", "{}"]);
        fixture.on_key("ZADD", "inbox", &["5", "over", "9e12", "mark"]);
        fixture.on_key("ZADD", "unique", &["5", "over"]);
        let follow_ups = "1763740800000 1 1 {}\np2 1 {}\nq";
        fixture.on_key("HSET", "outbox", &["1:trim", follow_ups]);
        fixture.on_key("HSET", "kv:calls", &["caller", "1 1763740800000 ok"]);
        fixture.on_key("HSET", "ticks", &["s", "1763740800000", "s:line", "@daily"]);
        fixture.on_key("HSET", "kv", &["n", "1", "over", "2"]);
        fixture.on_key("HSET", "kv:rev", &["n", "1", "over", "2"]);
        fixture.on_key("ZADD", "kv:at", &["5", "over"]);
        fixture.on_key("HSET", "recordings", &["gone", "{}"]);
        fixture.on_key("ZADD", "recordings:at", &["5", "gone"]);
        fixture.on_key("HSET", "meta", &["kv_bytes", "7", "waiting", "1", "shards_seen", "2"]);
        let dump = dump(&fixture);
        Self { fixture, dump, token, call_id }
    }

    /// The calls of each script that succeed, and together write every key that it may write.
    fn calls(&self) -> Vec<(&'static str, Vec<&str>)> {
        let (token, call_id) = (self.token.as_str(), self.call_id.as_str());
        let finish = ["9", "{}", "result", "[]"];
        let key = r#"{"key":"a"}"#;
        let mut calls = vec![
            ("produce/push", vec!["reject", "", "new", "0", "p", "", "later", "+60000", "p", "{}"]),
            ("produce/push", vec!["replace", "", "ready", "0", "p", key, "leased", "0", "p", ""]),
            ("produce/push", vec!["replace", "", "waits", "0", "p", "", "retry", "+5", "p", key]),
            ("produce/push", vec!["replace", "0", "waits", "p", "leased", "p", "new", "p"]),
            ("produce/cancel", vec!["ready", "leased", "first", "pending", "retry", "none"]),
            ("produce/reschedule", vec!["pending", "0"]),
            ("produce/reschedule", vec!["ready", "+60000"]),
            ("produce/reschedule", vec!["retry", "0"]),
            ("produce/reschedule", vec!["first", "+60000"]),
            (
                "produce/relay",
                vec!["9999999999999", "m", "new", "0", "p", key, "n", "x", "0", "p", ""],
            ),
            ("produce/relayed", vec!["mark", "none"]),
            ("produce/outbox", vec!["10", "1000"]),
            ("produce/trim_outbox", vec!["1:trim", "1"]),
            ("produce/trim_outbox", vec!["1:trim", "1 2", "none", "1"]),
            (
                "produce/tick",
                vec!["s", "@daily", "1763740800000", "1763740900000", "p", "1763740900000"],
            ),
            ("work/promote", vec!["1000", "0", "dead"]),
            ("work/promote", vec!["1000", "0", "discard"]),
            ("work/lease", vec!["100", "60000", "c:1", "0", "0", "{}", "100"]),
            ("work/lease", vec!["1", "60000", "c:1", "0", "0", "", "0"]),
            ("work/lease", vec!["100", "60000", call_id, "0", "0", "{}", "100"]),
            ("work/extend", vec!["me", "leased", token, "1000"]),
            ("work/reclaim", vec!["100", "3", "0", "{}"]),
            ("work/reclaim", vec!["100", "1", "0", "{}"]),
            ("work/reclaim", vec!["100", "", "0", "{}"]),
            ("work/settle", vec!["2", token, "ack", "leased", "held"]),
            ("work/settle", [&["held", token, "finish"], &finish[..]].concat()),
            ("work/settle", [&["followed", token, "finish"], &finish[..]].concat()),
            ("work/settle", vec!["held", token, "nack", "5", "9", "{}"]),
            ("work/settle", vec!["held", token, "nack", "5", "1", "{}"]),
            ("work/settle", vec!["held", token, "drop", "{}"]),
            ("work/settle", vec!["held", token, "release", "0", "1763740800000"]),
            ("work/settle", vec!["held", token, "release", "5", "1763740800000"]),
            ("work/settle", vec!["held", token, "snooze", "5", "9", "5", "9", "{}"]),
        ];
        calls.extend(Self::calls_of_operators());
        calls
    }

    fn calls_of_operators() -> Vec<(&'static str, Vec<&'static str>)> {
        let mut calls = vec![
            ("operate/get", vec!["leased"]),
            ("operate/list", vec!["dead", "newest", "", "0", "9999999999999", "", "", "10"]),
            ("operate/list", vec!["done", "oldest", "", "0", "9999999999999", "", "", "10"]),
            ("operate/list_state", vec!["blocked", "", "", "10"]),
            ("operate/list_state", vec!["retry", "", "", "10", "", "customer", "7"]),
            ("operate/list_state", vec!["dead", "9e12", "z", "10", "d", "", ""]),
            ("operate/list_state", vec!["done", "", "", "10"]),
            ("operate/peek", vec![]),
            ("operate/pause", vec!["pause"]),
            ("operate/prune", vec!["dead", "above", "0", "10"]),
            ("operate/prune", vec!["done", "ids", "done"]),
            ("operate/prune", vec!["dead", "before", "", "10"]),
            ("operate/prune_records", vec!["10"]),
            ("operate/prune_ticks", vec!["10"]),
            ("operate/record", vec!["10", "dead", "{}"]),
            ("operate/prune_recordings", vec!["10"]),
            ("operate/requeue", vec!["dead", "none"]),
            ("topic/configure", vec!["per_key", "2", "shards", "3", "rate", ""]),
            ("topic/forget_shards", vec!["1", "2"]),
            ("topic/locate", vec!["leased", "ready"]),
            ("store/get", vec!["n"]),
            ("store/set", vec!["n", "v", "1000", "always"]),
            ("store/add", vec!["n", "1"]),
            ("store/delete", vec!["n"]),
            ("store/set", vec!["n", "v", "1000", "always", "caller", "2"]),
            ("store/add", vec!["n", "1", "caller", "2"]),
            ("store/delete", vec!["n", "caller", "2"]),
            ("store/prune", vec!["10"]),
            ("doctor/outbox", vec!["no", "entry"]),
            ("doctor/types", vec!["0", "100", "1"]),
            ("doctor/jobs", vec!["0", "100", "1", "{}"]),
            ("doctor/permits", vec!["0", "100", "1", "100"]),
        ];
        let paged: [(&str, &[&str]); 5] = [
            ("doctor/stage", &["pending", "ready", "retry", "unack"]),
            ("doctor/side", &["opts", "attempts", "errors", "turns:of", "unique"]),
            ("doctor/blocked", &["blocked", "blocked:at"]),
            ("doctor/ended", &["dead", "dead:jobs", "dead:opts", "dead:info", "done", "done:jobs"]),
            ("doctor/kv", &["kv:rev", "kv:at", "bytes"]),
        ];
        for (script, parts) in paged {
            for part in parts {
                let last = if script == "doctor/kv" { "1000" } else { "{}" };
                calls.push((script, vec!["0", "100", "1", part, last]));
            }
        }
        calls
    }

    fn restore(&self) {
        let mut restore = redis::pipe();
        for key in self.fixture.keys() {
            restore.cmd("DEL").arg(key);
        }
        for (key, value) in &self.dump {
            restore.cmd("RESTORE").arg(key).arg(0).arg(value.as_slice());
        }
        self.fixture.exec(&restore);
    }

    /// Breaks a key; false if it is so already.
    fn break_key(&self, name: &str, broken: Broken) -> bool {
        let is_zset = ["pending", "ready", "retry", "unack", "holders", "blocked", "dead", "done"]
            .contains(&name)
            || ["inbox", "unique", "kv:at", "recordings:at"].contains(&name);
        let (command, args): (&str, &[&str]) = match broken {
            Garbage => return self.fill_with_garbage(name, is_zset),
            Hash if !is_zset => return false,
            Zset if is_zset => return false,
            Text => ("SET", &["text"]),
            List => ("RPUSH", &["a"]),
            Set => ("SADD", &["a"]),
            Hash => ("HSET", &["a", "1"]),
            Zset => ("ZADD", &["1", "a"]),
            Stream => ("XADD", &["*", "a", "1"]),
        };
        self.fixture.on_key("DEL", name, &[]);
        self.fixture.on_key(command, name, args);
        true
    }

    fn fill_with_garbage(&self, name: &str, is_zset: bool) -> bool {
        let key = self.fixture.key(name);
        let list = if is_zset { ("ZRANGE", vec!["0", "-1"]) } else { ("HKEYS", vec![]) };
        let members: Vec<String> =
            self.fixture.redis(redis::cmd(list.0).arg(&key).arg(list.1.as_slice()));
        for member in &members {
            if is_zset {
                self.fixture.on_key("ZADD", name, &["-7.5", member]);
            } else {
                self.fixture.on_key("HSET", name, &[member, "garbage"]);
            }
        }
        !members.is_empty()
    }

    /// Calls each script on each of its keys as it should not be. Describes the calls that failed and had changed
    /// something.
    fn changed_by_failures(&self, calls: &[(&'static str, Vec<&str>)]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (script, args) in calls {
            self.restore();
            let sound = RawScript(script).try_call(&self.fixture, args);
            assert!(sound.is_ok(), "{script} {args:?}: {sound:?}");
            let (_, keys) = duebox_queue::digest_and_keys(script).unwrap();
            for (name, broken) in keys.iter().flat_map(|key| KINDS.map(|kind| (*key, kind))) {
                self.restore();
                if !self.break_key(name, broken) {
                    continue;
                }
                let before = dump(&self.fixture);
                let Err(error) = RawScript(script).try_call(&self.fixture, args) else { continue };
                if dump(&self.fixture) != before {
                    wrong.push(format!("{script} {args:?}, {name} as {broken:?}: {error}"));
                }
            }
        }
        wrong
    }
}

fn dump(fixture: &Fixture) -> Dump {
    let keys = fixture.keys();
    let mut read = redis::pipe();
    for key in &keys {
        read.cmd("DUMP").arg(key);
    }
    let values: Vec<Vec<u8>> = fixture.query(&read);
    keys.into_iter().zip(values).collect()
}

#[tokio::test]
async fn a_call_that_fails_on_a_broken_key_has_changed_nothing() {
    let topic = Topic::new().await;
    let calls = topic.calls();
    let walked: BTreeSet<&str> = calls.iter().map(|(script, _)| *script).collect();
    assert_eq!(walked, duebox_queue::script_paths().collect());
    let wrong = topic.changed_by_failures(&calls);
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}

/// Without permits and successors, a group of acks is settled as a whole.
#[tokio::test]
async fn a_group_of_acks_that_fails_on_a_broken_key_has_changed_nothing() {
    let mut topic = Topic::new().await;
    for name in ["turns", "turns:of", "pending"] {
        topic.fixture.on_key("DEL", name, &[]);
    }
    let other = (topic.token.parse::<u64>().unwrap() + 10).to_string();
    for (token, ids) in
        [(&topic.token, ["a", "b", "c", "d", "e"]), (&other, ["v", "w", "x", "y", "z"])]
    {
        for id in ids {
            topic.fixture.on_key("ZADD", "unack", &[token, id]);
            topic.fixture.on_key("HSET", "jobs", &[id, "p"]);
        }
    }
    topic.dump = dump(&topic.fixture);
    // A part of what the first token holds, and all that the second one holds.
    let some = vec!["5", topic.token.as_str(), "ack", "a", "b", "c", "d", "e"];
    let all = vec!["5", other.as_str(), "ack", "z", "y", "x", "w", "v"];
    let wrong = topic.changed_by_failures(&[("work/settle", some), ("work/settle", all)]);
    assert!(wrong.is_empty(), "{} calls:\n{}", wrong.len(), wrong.join("\n"));
}

/// The case that lost a job: its ack leaves follow-ups, and `outbox` is not a hash.
#[tokio::test]
async fn a_job_whose_follow_ups_cannot_be_stored_stays_leased() {
    let topic = Topic::new().await;
    topic.fixture.on_key("DEL", "outbox", &[]);
    topic.fixture.on_key("SET", "outbox", &["text"]);
    let finish = ["held", &topic.token, "finish", "0", "", "", "[]"];
    let settled = RawScript("work/settle").try_call(&topic.fixture, &finish);
    assert_eq!(settled.unwrap_err().code(), Some("WRONGTYPE"));
    let kept: Value = topic.fixture.on_key("HGET", "jobs", &["held"]);
    assert_eq!(kept, Value::BulkString(b"p".to_vec()));
    assert_ne!(topic.fixture.on_key("ZSCORE", "unack", &["held"]), Value::Nil);
}
