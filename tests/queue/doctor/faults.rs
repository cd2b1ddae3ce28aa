//! Each fault that the doctor knows: found, left alone, put right, and the topic worked off after it.

use std::time::Duration;

use duebox_queue::{Checkup, Finding, FindingKind as Kind, Verdict};

use super::{examine, named, owned, sound};
use crate::fixture::Fixture;

/// A plain command on a key of the topic.
type Plain = (&'static str, &'static str, &'static [&'static str]);
type Named = (Kind, &'static str);

/// A way to break a topic with plain commands, and what the doctor must find; with a repair, where
/// that puts right some of it by the way.
struct Fault {
    name: &'static str,
    commands: &'static [Plain],
    found: &'static [Named],
    repaired: &'static [Named],
}

const fn fault(name: &'static str, commands: &'static [Plain], found: &'static [Named]) -> Fault {
    Fault { name, commands, found, repaired: found }
}

impl Fault {
    const fn repaired(self, repaired: &'static [Named]) -> Self {
        Self { repaired, ..self }
    }
}

const MEMBER: &str = "a\x00001763740800000\x000000000000000009\x00ghost";

#[rustfmt::skip]
const FAULTS: &[Fault] = &[
    fault("a payload alone", &[("HSET", "jobs", &["x", "p"])], &[(Kind::Orphan, "x")]),
    fault("an id alone", &[("ZADD", "pending", &["0", "x"])], &[(Kind::NoPayload, "x")]),
    fault("an id alone that is ready",
        &[("ZADD", "ready", &["1763740800000", "x"]), ("HSET", "opts", &["x", "{}"])],
        &[(Kind::NoPayload, "x"), (Kind::StrayOptions, "x")])
        .repaired(&[(Kind::NoPayload, "x")]),
    fault("no payload in retry", &[("HDEL", "jobs", &["retry"])],
        &[(Kind::NoPayload, "retry"), (Kind::StrayOptions, "retry")])
        .repaired(&[(Kind::NoPayload, "retry")]),
    fault("no payload in line", &[("HDEL", "jobs", &["second"])],
        &[(Kind::NoPayload, "second"), (Kind::StrayOptions, "second")])
        .repaired(&[(Kind::NoPayload, "second")]),
    fault("no payload of a turn", &[("HDEL", "jobs", &["first"])],
        &[(Kind::NoPayload, "first"), (Kind::StrayOptions, "first")])
        .repaired(&[(Kind::NoPayload, "first")]),

    fault("due in seconds", &[("ZADD", "pending", &["1763740800", "now"])], &[(Kind::BadDue, "now")]),
    fault("due in µs", &[("ZADD", "pending", &["1763740800000000", "now"])], &[(Kind::BadDue, "now")]),
    fault("due never", &[("ZADD", "pending", &["+inf", "now"])], &[(Kind::BadDue, "now")]),
    fault("due before time", &[("ZADD", "pending", &["-1", "now"])], &[(Kind::BadDue, "now")]),
    fault("no time of a successor", &[("ZADD", "pending", &["5", "followed"])], &[(Kind::BadDue, "followed")]),
    fault("tried again never", &[("ZADD", "retry", &["+inf", "retry"])], &[(Kind::BadDue, "retry")]),
    fault("ready in seconds", &[("ZADD", "ready", &["1763740800", "ready"])], &[(Kind::BadScore, "ready")]),
    fault("ready at no time", &[("ZADD", "ready", &["-inf", "low"])], &[(Kind::BadScore, "low")]),
    fault("leased without end", &[("ZADD", "unack", &["9000000000000000000", "leased"])], &[(Kind::BadScore, "leased")]),
    fault("dead at no time", &[("ZADD", "dead", &["1763740800", "dead"])], &[(Kind::BadScore, "dead")]),
    fault("done at no time", &[("ZADD", "done", &["+inf", "done"])], &[(Kind::BadScore, "done")]),

    fault("ready and leased", &[("ZADD", "ready", &["1763740800000", "leased"])], &[(Kind::TwoStages, "leased")]),
    fault("retried and leased", &[("ZADD", "retry", &["1763740800000", "leased"])], &[(Kind::TwoStages, "leased")]),
    fault("ready and retried", &[("ZADD", "ready", &["1763740800000", "retry"])], &[(Kind::TwoStages, "retry")]),
    fault("ready and in line", &[("ZADD", "ready", &["1763740800000", "second"])], &[(Kind::TwoStages, "second")]),
    fault("retried and in line", &[("ZADD", "retry", &["1763740800000", "second"])], &[(Kind::TwoStages, "second")]),

    fault("superseded in two stages", &[("ZADD", "retry", &["1763740800000", "superseded"])], &[]),

    fault("reserved without end", &[("ZADD", "unique", &["9000000000000000", "done"])], &[(Kind::BadScore, "done")]),
    fault("options of nothing", &[("HSET", "opts", &["x", "{}"])], &[(Kind::StrayOptions, "x")]),
    fault("attempts of nothing", &[("HSET", "attempts", &["x", "1"])], &[(Kind::StrayAttempts, "x")]),
    fault("attempts of a pending one", &[("HSET", "attempts", &["pending", "1"])], &[(Kind::StrayAttempts, "pending")]),
    fault("invalid attempts", &[("HSET", "attempts", &["retry", "one"])], &[(Kind::StrayAttempts, "retry")]),
    fault("an error of nothing", &[("HSET", "errors", &["x", "{}"])], &[(Kind::StrayAttempts, "x")]),

    fault("a turn of nothing", &[("HSET", "turns:of", &["x", "1763740800000 z"])],
        &[(Kind::StrayPermit, "x"), (Kind::WrongPermits, "z")])
        .repaired(&[(Kind::StrayPermit, "x")]),
    fault("an invalid permit", &[("HSET", "turns:of", &["x", "soon"])], &[(Kind::StrayPermit, "x")]),
    fault("permits that no job holds", &[("HSET", "turns", &["z", "1"])], &[(Kind::WrongPermits, "z")]),
    fault("too many permits", &[("HSET", "turns", &["a", "7"])], &[(Kind::WrongPermits, "a")]),
    fault("permits that are not a number", &[("HSET", "turns", &["c", "x"])], &[(Kind::WrongPermits, "c")]),
    fault("permits that are not counted", &[("HDEL", "turns", &["c"])], &[(Kind::WrongPermits, "c")]),
    fault("a queue that nothing advances",
        &[("ZREM", "ready", &["first"]), ("HDEL", "jobs", &["first"]), ("HDEL", "opts", &["first"]),
          ("DEL", "turns", &[]), ("DEL", "turns:of", &[])],
        &[(Kind::StuckQueue, "second"), (Kind::StuckQueue, "third")])
        .repaired(&[(Kind::StuckQueue, "second")]),
    fault("a queue behind permits that no job holds",
        &[("ZREM", "ready", &["first"]), ("HDEL", "jobs", &["first"]), ("HDEL", "opts", &["first"]),
          ("HDEL", "turns:of", &["first"])],
        &[(Kind::WrongPermits, "a")]),

    fault("a member of no job", &[("ZADD", "blocked", &["0", MEMBER])],
        &[(Kind::QueueMismatch, "ghost"), (Kind::NoPayload, "ghost")]),
    fault("no member at all", &[("ZADD", "blocked", &["0", "a"])], &[(Kind::QueueMismatch, "a")]),
    fault("not in the index", &[("HDEL", "blocked:at", &["second"])],
        &[(Kind::QueueMismatch, "second"), (Kind::Orphan, "second")])
        .repaired(&[(Kind::QueueMismatch, "second")]),
    fault("in the index alone", &[("HSET", "blocked:at", &["x", MEMBER])], &[(Kind::QueueMismatch, "x")]),
    fault("not in line any more", &[("DEL", "blocked", &[])],
        &[(Kind::QueueMismatch, "second"), (Kind::QueueMismatch, "third")]),

    fault("dead without a payload", &[("HDEL", "dead:jobs", &["dead"])], &[(Kind::DeadParts, "dead")]),
    fault("dead without a cause", &[("HDEL", "dead:info", &["dead"])], &[(Kind::DeadParts, "dead")]),
    fault("a dead payload alone", &[("HSET", "dead:jobs", &["x", "p"])], &[(Kind::DeadParts, "x")]),
    fault("a cause alone", &[("HSET", "dead:info", &["x", "{}"])], &[(Kind::DeadParts, "x")]),
    fault("dead options alone", &[("HSET", "dead:opts", &["x", "{}"])], &[(Kind::DeadParts, "x")]),
    fault("done without an info", &[("HDEL", "done:info", &["done"])], &[(Kind::DoneParts, "done")]),
    fault("a result alone", &[("HSET", "done:result", &["x", "1"])], &[(Kind::DoneParts, "x")]),
    fault("a done payload alone", &[("HSET", "done:jobs", &["x", "1"])], &[(Kind::DoneParts, "x")]),

    fault("a revision of nothing", &[("HSET", "kv:rev", &["x", "1"])], &[(Kind::StoreParts, "x")]),
    fault("a time of nothing", &[("ZADD", "kv:at", &["1763740800000", "x"])], &[(Kind::StoreParts, "x")]),
    fault("a value kept beyond all times",
        &[("HSET", "kv", &["x", "v"]), ("HSET", "meta", &["kv_bytes", "2"]), ("ZADD", "kv:at", &["9e15", "x"])],
        &[(Kind::BadScore, "x")]),
    fault("bytes that are not counted", &[("HSET", "kv", &["x", "v"])], &[(Kind::WrongBytes, "kv_bytes")]),
    fault("bytes of nothing", &[("HSET", "meta", &["kv_bytes", "7"])], &[(Kind::WrongBytes, "kv_bytes")]),

    fault("no follow-ups", &[("HSET", "outbox", &["1763740800000000:x", "soon"])],
        &[(Kind::BadOutbox, "1763740800000000:x")]),
];

#[tokio::test]
async fn each_fault_is_found_and_put_right() {
    for fault in FAULTS {
        let fixture = sound().await;
        for (command, name, args) in fault.commands {
            fixture.on_key(command, name, args);
        }
        let before = fixture.snapshot().state();
        let found = examine(&fixture, Checkup::LOOK).await;
        assert_eq!(named(&found), owned(fault.found), "{}", fault.name);
        assert!(!found.iter().any(Finding::is_repaired), "{}", fault.name);
        assert_eq!(fixture.snapshot().state(), before, "{}: looking changes nothing", fault.name);

        let repaired = examine(&fixture, Checkup::REPAIR).await;
        assert_eq!(named(&repaired), owned(fault.repaired), "{}", fault.name);
        assert!(repaired.iter().all(Finding::is_repaired), "{}: {repaired:?}", fault.name);
        assert_eq!(examine(&fixture, Checkup::LOOK).await, [], "{}", fault.name);
    }
}

#[tokio::test]
async fn what_is_put_right_can_be_worked_off() {
    for fault in FAULTS {
        let fixture = sound().await;
        for (command, name, args) in fault.commands {
            fixture.on_key(command, name, args);
        }
        examine(&fixture, Checkup::REPAIR).await;
        work_off(&fixture).await;
        let left = fixture.snapshot();
        let live = [left.jobs.len(), left.opts.len(), left.attempts.len(), left.errors.len()];
        let lines =
            [left.blocked.len(), left.blocked_at.len(), left.turns.len(), left.turns_of.len()];
        let stages = [left.pending.len(), left.ready.len(), left.unack.len(), left.retry.len()];
        assert_eq!([live, lines, stages], [[0; 4]; 3], "{}: {left:?}", fault.name);
    }
}

/// Lets all leases expire, and acks whatever comes.
async fn work_off(fixture: &Fixture) {
    fixture.advance(Duration::from_secs(3_600), &mut []);
    for _ in 0..20 {
        fixture.reclaim().await;
        fixture.advance(Duration::from_secs(3_600), &mut []);
        fixture.promote().await;
        let leases = fixture.lease_up_to(1_000).await;
        let acks: Vec<_> = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
        if !acks.is_empty() {
            fixture.settle_many(&acks).await;
        }
    }
}
