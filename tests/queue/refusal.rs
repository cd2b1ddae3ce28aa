//! Invalid arguments: the whole call is refused, and no key has changed.

use crate::fixture::{Fixture, LEASE, drop_it, job, job_in, nack};
use crate::script::{
    CANCEL, CONFIGURE, EXTEND, LEASE as LEASE_SCRIPT, OUTBOX, PAUSE, PROMOTE, PRUNE, PRUNE_RECORDS,
    PRUNE_TICKS, PUSH, RECLAIM, RELAY, RELAYED, REQUEUE, RESCHEDULE, RawScript, SETTLE,
    TRIM_OUTBOX,
};
use duebox_job::Options;
use duebox_queue::{IfExists, Limits, NewJob};
use std::num::NonZero;

/// A topic with a job in every state, an expired lease and a dead one among them.
async fn busy() -> Fixture {
    let fixture = Fixture::new().await;
    for name in ["dead", "expired", "retry"] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        match name {
            "dead" => drop(fixture.settle(lease, drop_it()).await),
            "retry" => drop(fixture.settle(lease, nack()).await),
            _ => {}
        }
    }
    fixture.advance(LEASE, &mut []);
    fixture.push("leased").await;
    fixture.lease_only("leased").await;
    fixture.push("ready").await;
    fixture.push_job(job_in("pending", 60), IfExists::Reject).await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for name in ["turn", "line"] {
        let options = Options::default().with_key("k").unwrap();
        fixture.push_job(NewJob { options, ..job(name) }, IfExists::Reject).await;
    }
    fixture.plain_push("due", "p", 0);
    fixture.plain_push("bad", "p", 5);
    fixture
}

pub(crate) async fn refuses(script: &RawScript, calls: &[(&[&str], &str)]) {
    let fixture = busy().await;
    let before = fixture.snapshot().state();
    for (args, why) in calls {
        let error = script.try_call(&fixture, args).unwrap_err();
        let shown = &args[..args.len().min(12)];
        assert_eq!(error.code(), Some("DUEBOX"), "{shown:?}: {error}");
        assert!(error.detail().unwrap_or_default().contains(why), "{shown:?}: {error}");
        assert_eq!(fixture.snapshot().state(), before, "{shown:?} has changed a key");
    }
}

pub(crate) fn many<'a>(head: &[&'a str], entry: &[&'a str], count: usize) -> Vec<&'a str> {
    let mut args = head.to_vec();
    for _ in 0..count {
        args.extend(entry);
    }
    args
}

#[tokio::test]
async fn push() {
    let good = ["a", "0", "p", ""];
    let over = many(&["keep", ""], &good, 1_001);
    let cut = [&["keep", ""][..], &good, &good[..3]].concat();
    let options = [&["keep", ""][..], &good, &["b", "0", "p", "{"]].concat();
    refuses(
        &PUSH,
        &[
            (&[], "1 to 1000 jobs"),
            (&over, "1 to 1000 jobs"),
            (&cut, "1 to 1000 jobs"),
            (&[&["often", ""][..], &good].concat(), "no mode often"),
            (&options, "options of job 2 are not JSON"),
        ],
    )
    .await;
}

#[tokio::test]
async fn promote() {
    let why = "1 to 1000 ids and a skip";
    let bad = [
        &["0", "0", "dead"][..],
        &["1001", "0", "dead"],
        &["-1", "0", "dead"],
        &["1.5", "0", "dead"],
        &["nan", "0", "dead"],
        &["inf", "0", "dead"],
        &["x", "0", "dead"],
        &["1", "-1", "dead"],
        &["1", "0.5", "dead"],
        &["1", "nan", "dead"],
        &["1", "inf", "dead"],
        &["1", "", "dead"],
        &["1"],
        &[],
    ];
    refuses(&PROMOTE, &bad.map(|args| (args, why))).await;
    let policy = "to dead, or discards them";
    refuses(&PROMOTE, &[(&["1", "0"], policy), (&["1", "0", "retry"], policy)]).await;
}

#[tokio::test]
async fn lease() {
    refuses(
        &LEASE_SCRIPT,
        &[
            (&[], "1 to 1000 jobs"),
            (&["0", "1000", "c"], "1 to 1000 jobs"),
            (&["1001", "1000", "c"], "1 to 1000 jobs"),
            (&["1.5", "1000", "c"], "1 to 1000 jobs"),
            (&["nan", "1000", "c"], "1 to 1000 jobs"),
            (&["1"], "1 ms to one day"),
            (&["1", "0", "c"], "1 ms to one day"),
            (&["1", "86400001", "c"], "1 ms to one day"),
            (&["1", "1.5", "c"], "1 ms to one day"),
            (&["1", "nan", "c"], "1 ms to one day"),
            (&["1", "1000"], "call id"),
            (&["1", "1000", ""], "call id"),
            (&["1", "1000", "c"], "a bound of bytes, a least age"),
            (&["1", "1000", "c", "-1", "0", ""], "a bound of bytes, a least age"),
            (&["1", "1000", "c", "0", "1.5", ""], "a bound of bytes, a least age"),
            (&["1", "1000", "c", "0", "nan", ""], "a bound of bytes, a least age"),
            (&["1", "1000", "c", "0", "0"], "a bound of bytes, a least age"),
            (&["1", "1000", "c", "0", "0", ""], "0 to 1000 start at once"),
            (&["1", "1000", "c", "0", "0", "", "1001"], "0 to 1000 start at once"),
            (&["1", "1000", "c", "0", "0", "", "0.5"], "0 to 1000 start at once"),
        ],
    )
    .await;
}

#[tokio::test]
async fn settle() {
    let ack = ["1", "1", "ack", "leased"];
    let with = |entry: &[&'static str]| [&ack[..], entry, &ack].concat();
    let over = many(&[], &ack, 1_001);
    let unknown = with(&["a", "1", "maybe"]);
    let nobody = with(&["0", "1", "ack"]);
    let crowd = with(&["1001", "1", "ack", "a"]);
    let unsaid = with(&["a", "1", "ack"]);
    let half = [&["501", "1", "ack"][..], &["a"; 501]].concat();
    let halves = [&half[..], &half].concat();
    let token = with(&["1", "1.5", "ack", "a"]);
    let signed = with(&["1", "-1", "ack", "a"]);
    let empty = with(&["1", "", "ack", "a"]);
    let delay = with(&["a", "1", "nack", "soon", "3", "{}"]);
    let endless = with(&["a", "1", "nack", "99999999999999", "3", "{}"]);
    let none = with(&["a", "1", "nack", "5", "0", "{}"]);
    let attempts = with(&["a", "1", "nack", "5", "1000000", "{}"]);
    let fraction = with(&["a", "1", "release", "0.5", "1763740800000"]);
    let due = with(&["a", "1", "release", "0", "soon"]);
    let cut = [&ack[..], &["a", "1", "nack", "5", "3"]].concat();
    refuses(
        &SETTLE,
        &[
            (&[], "1 to 1000 jobs"),
            (&over, "1 to 1000 jobs"),
            (&["leased"], "verdict 1: unknown verdict"),
            (&["leased", "1"], "verdict 1: unknown verdict"),
            (&unknown, "verdict 2: unknown verdict maybe"),
            (&nobody, "verdict 2: a group acks 1 to 1000"),
            (&crowd, "verdict 2: a group acks 1 to 1000"),
            (&unsaid, "verdict 2: a group acks 1 to 1000"),
            (&["2", "1", "ack", "a"], "verdict 1: it is cut short"),
            (&["600", "1", "ack"], "verdict 1: it is cut short"),
            (&halves, "1 to 1000 jobs"),
            (&token, "verdict 2: its token is not a number"),
            (&signed, "verdict 2: its token is not a number"),
            (&empty, "verdict 2: its token is not a number"),
            (&delay, "verdict 2: its delay"),
            (&endless, "verdict 2: its delay"),
            (&none, "verdict 2: its max attempts"),
            (&attempts, "verdict 2: its max attempts"),
            (&fraction, "verdict 2: its delay"),
            (&due, "verdict 2: its due time"),
            (&cut, "verdict 2: it is cut short"),
            (&["a", "1", "drop"], "verdict 1: it is cut short"),
        ],
    )
    .await;
}

#[tokio::test]
async fn settle_with_a_snooze_or_a_finish() {
    let ack = ["1", "1", "ack", "leased"];
    let with = |entry: &[&'static str]| [&ack[..], entry, &ack].concat();
    let put_off = with(&["a", "1", "snooze", "soon", "3", "5", "3", "{}"]);
    let snoozes = with(&["a", "1", "snooze", "5", "-1", "5", "3", "{}"]);
    let over_snoozes = with(&["a", "1", "snooze", "5", "1000001", "5", "3", "{}"]);
    let nack_of_snooze = with(&["a", "1", "snooze", "5", "3", "x", "3", "{}"]);
    let none_of_snooze = with(&["a", "1", "snooze", "5", "3", "5", "0", "{}"]);
    let cut_snooze = [&ack[..], &["a", "1", "snooze", "5", "3", "5", "3"]].concat();
    let held = with(&["a", "1", "finish", "-1", "", "", ""]);
    let ever = with(&["a", "1", "finish", "inf", "", "", ""]);
    let cut_finish = [&ack[..], &["a", "1", "finish", "0", "", ""]].concat();
    refuses(
        &SETTLE,
        &[
            (&put_off, "verdict 2: its delay"),
            (&snoozes, "verdict 2: its max snoozes"),
            (&over_snoozes, "verdict 2: its max snoozes"),
            (&nack_of_snooze, "verdict 2: its max attempts"),
            (&none_of_snooze, "verdict 2: its max attempts"),
            (&cut_snooze, "verdict 2: it is cut short"),
            (&held, "verdict 2: its delay"),
            (&ever, "verdict 2: its delay"),
            (&cut_finish, "verdict 2: it is cut short"),
        ],
    )
    .await;
}

/// As above with entries that would change something: the good ones before and after a bad one.
#[tokio::test]
async fn a_batch_with_one_bad_entry_settles_nothing() {
    let fixture = Fixture::new().await;
    for name in ["a", "b"] {
        fixture.push(name).await;
    }
    let leases = fixture.lease_up_to(2).await;
    let token = leases[0].token.expires_at_us().to_string();
    let before = fixture.snapshot().state();
    for bad in [&["b", &token, "nack", "x", "3", "{}"][..], &["1", "x", "ack", "b"], &["b", &token]]
    {
        for good in [&["1", &token, "ack", "a"][..], &["a", &token, "drop", "{}"]] {
            SETTLE.try_call(&fixture, &[good, bad].concat()).unwrap_err();
            SETTLE.try_call(&fixture, &[bad, good].concat()).unwrap_err();
            assert_eq!(fixture.snapshot().state(), before);
        }
    }
    let letters: String =
        SETTLE.call(&fixture, &["1", &token, "ack", "a", "b", &token, "drop", "{}"]);
    assert_eq!(letters, "dx");
}

#[tokio::test]
async fn extend() {
    let good = ["leased", "1", "1000"];
    let over = many(&["me"], &good, 1_001);
    let count = "1 to 1000 leases";
    let with = |entry: &[&'static str]| [&["me"], &good[..], entry].concat();
    let by = "lease 2 is to be extended";
    refuses(
        &EXTEND,
        &[
            (&[], count),
            (&["me"], count),
            (&good, count),
            (&["me", "leased"], count),
            (&with(&["a", "1"]), count),
            (&over, count),
            (&with(&["a", "x", "1000"]), "token of lease 2"),
            (&with(&["a", "1", "0"]), by),
            (&with(&["a", "1", "86400001"]), by),
            (&with(&["a", "1", "1.5"]), by),
            (&with(&["a", "1", "nan"]), by),
        ],
    )
    .await;
}

#[tokio::test]
async fn reclaim() {
    let (count, needs) = ("1 to 1000 leases", "needs the crashes allowed");
    refuses(
        &RECLAIM,
        &[
            (&[], count),
            (&["0", "3", "0", "{}"], count),
            (&["1001", "3", "0", "{}"], count),
            (&["1.5", "3", "0", "{}"], count),
            (&["1", "0", "0", "{}"], needs),
            (&["1", "x", "0", "{}"], needs),
            (&["1", "3", "-1", "{}"], needs),
            (&["1", "3", "inf", "{}"], needs),
            (&["1", "3", "0"], needs),
            (&["1", "3", "0", "{}", "x"], needs),
            (&["1", "3", "0", "{}", "1.5"], needs),
            (&["1", "3", "0", "{}", "9999999999999999"], needs),
        ],
    )
    .await;
}

#[tokio::test]
async fn cancel_and_requeue() {
    let over = many(&[], &["ready"], 1_001);
    refuses(&CANCEL, &[(&[], "1 to 1000 ids"), (&over, "1 to 1000 ids")]).await;
    let over = many(&[], &["dead"], 1_001);
    refuses(&REQUEUE, &[(&[], "1 to 1000 ids"), (&over, "1 to 1000 ids")]).await;
}

#[tokio::test]
async fn prune_and_sweep() {
    let over = many(&["dead", "ids"], &["dead"], 1_001);
    let bound = "a bound, and 1 to 1000";
    let yard = "the dead and the done";
    refuses(
        &PRUNE,
        &[
            (&[], yard),
            (&["live", "before", "5", "5"], yard),
            (&["dead"], bound),
            (&["dead", "ids"], "1 to 1000 ids"),
            (&over, "1 to 1000 ids"),
            (&["dead", "before"], bound),
            (&["dead", "before", "-1", "5"], bound),
            (&["done", "before", "nan", "5"], bound),
            (&["dead", "above", "0", "0"], bound),
            (&["done", "above", "0", "1001"], bound),
            (&["dead", "above", "0.5", "5"], bound),
            (&["dead", "behind", "0", "5"], "no way behind"),
        ],
    )
    .await;
    refuses(&PRUNE, &[(&["dead", "before", ""], bound), (&["dead", "before", "", "0"], bound)])
        .await;
    let bad: [&[&str]; 5] = [&[], &["0"], &["1001"], &["1.5"], &["x"]];
    refuses(&PRUNE_TICKS, &bad.map(|args| (args, "1 to 1000 fields"))).await;
    let why = "1 to 1000 records";
    let bad: [&[&str]; 5] = [&[], &["0"], &["1001"], &["1.5"], &["x"]];
    refuses(&PRUNE_RECORDS, &bad.map(|args| (args, why))).await;
}

#[tokio::test]
async fn configure_and_pause() {
    refuses(
        &CONFIGURE,
        &[
            (&[], "fields and values"),
            (&["per_key"], "fields and values"),
            (&["per_key", "1", "rate"], "fields and values"),
            (&["per_key", "1", "speed", "9"], "no limit speed"),
            (&["paused", "1"], "no limit paused"),
            (&["tat", "0"], "no limit tat"),
        ],
    )
    .await;
    let known = "pause or resume";
    let bad: [&[&str]; 3] = [&[], &["stop"], &[""]];
    refuses(&PAUSE, &bad.map(|args| (args, known))).await;
}

#[tokio::test]
async fn the_relay() {
    let good = ["mark", "child", "0", "p", ""];
    let over = many(&["9999999999999"], &good, 101);
    let cut = [&["9999999999999"][..], &good, &good[..4]].concat();
    let wants = "a time and 1 to 100 jobs";
    refuses(
        &RELAY,
        &[
            (&[], wants),
            (&["9999999999999"], wants),
            (&good, wants),
            (&cut, wants),
            (&over, wants),
            (&[&["soon"][..], &good].concat(), wants),
            (&[&["-1"][..], &good].concat(), wants),
        ],
    )
    .await;
    let over = many(&[], &["mark"], 101);
    refuses(&RELAYED, &[(&[], "1 to 100 dedup records"), (&over, "1 to 100 dedup records")]).await;
    let reads = "1 to 1000 entries";
    let bad: [&[&str]; 5] = [&[], &["0", "1"], &["1001", "1"], &["1"], &["1", "0"]];
    refuses(&OUTBOX, &bad.map(|args| (args, reads))).await;
    let skips: Vec<&str> = ["1", "1"].into_iter().chain(std::iter::repeat_n("f", 1_001)).collect();
    refuses(&OUTBOX, &[(&skips, "skips at most 1000")]).await;
    let over = ["1:a"; 202];
    refuses(&TRIM_OUTBOX, &[(&[], "1 to 100"), (&["1:a"], "1 to 100"), (&over, "1 to 100")]).await;
}

#[tokio::test]
async fn reschedule() {
    let fixture = busy().await;
    let before = fixture.snapshot().state();
    for args in [&["pending"][..], &["pending", "soon"], &["pending", "-1"]] {
        let word: String = RESCHEDULE.call(&fixture, args);
        assert_eq!(word, "bad_due", "{args:?}");
        assert_eq!(fixture.snapshot().state(), before);
    }
}
