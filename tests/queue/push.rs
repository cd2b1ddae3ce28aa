//! Push: its words, its modes, its bounds.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::Pushed::{BadDue, Exists, Kept, Pushed, Replaced, Successor};
use duebox_queue::{Due, IfExists, NewJob, Settled, Verdict};

use crate::fixture::{BACKOFF, Fixture, id, job, job_in, nack};
use crate::script;
use crate::snapshot::{Snapshot, ids};

const MODES: [IfExists; 3] = [IfExists::Reject, IfExists::Keep, IfExists::Replace];

#[tokio::test]
async fn a_due_job_goes_to_ready_and_a_later_one_to_pending() {
    let fixture = Fixture::new().await;
    let before = fixture.snapshot().now_us / 1_000;
    fixture.push("now").await;
    fixture.push_job(NewJob { due: Due::At(before - 5), ..job("past") }, IfExists::Reject).await;
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    fixture.push_job(NewJob { due: Due::At(before + 9_000), ..job("at") }, IfExists::Reject).await;

    let after = fixture.snapshot();
    assert_eq!(ids(&after.ready), ["now", "past"]);
    assert_eq!(ids(&after.pending), ["at", "later"]);
    let between = |score: f64, delay: u64| {
        let (first, last) = (before + delay, after.now_us / 1_000 + delay);
        assert!((first as f64..=last as f64).contains(&score), "{first} <= {score} <= {last}");
    };
    between(after.ready[b"now".as_slice()], 0);
    between(after.pending[b"later".as_slice()], 60_000);
    assert_eq!(after.ready[b"past".as_slice()], (before - 5) as f64);
    assert_eq!(after.pending[b"at".as_slice()], (before + 9_000) as f64);
}

/// A job of id `a`, brought into a state by name.
async fn put(fixture: &Fixture, state: &str) {
    let options = Options::default().with_max_attempts(4);
    let due = if state == "pending" { Due::In(Duration::from_secs(60)) } else { Due::Now };
    let job = NewJob { options, due, payload: Bytes::from("old"), ..job("a") };
    fixture.push_job(job, IfExists::Reject).await;
    match state {
        "retry" => {
            let lease = fixture.lease_only("a").await;
            assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
        }
        "retried" => {
            let lease = fixture.lease_only("a").await;
            assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
            fixture.advance(BACKOFF, &mut []);
            fixture.promote().await;
        }
        "leased" => drop(fixture.lease_only("a").await),
        _ => {}
    }
}

#[tokio::test]
async fn a_live_job_is_refused_kept_or_replaced_in_every_stage() {
    for state in ["pending", "ready", "retry", "retried"] {
        for (mode, word) in MODES.into_iter().zip([Exists, Kept, Replaced]) {
            let fixture = Fixture::new().await;
            put(&fixture, state).await;
            let before = fixture.snapshot().state();
            assert_eq!(fixture.push_job(job_in("a", 600), mode).await, word, "{state}");
            let after = fixture.snapshot().state();
            if mode != IfExists::Replace {
                assert_eq!(after, before, "{state}");
                continue;
            }
            assert_eq!(ids(&after.pending), ["a"], "{state}");
            assert_eq!(Snapshot::text(&after.jobs, "a"), "a", "{state}");
            assert!(after.ready.is_empty() && after.retry.is_empty(), "{state}");
            assert!(after.attempts.is_empty() && after.opts.is_empty(), "{state}");
        }
    }
}

#[tokio::test]
async fn a_leased_job_is_refused_kept_or_followed() {
    for (mode, word) in MODES.into_iter().zip([Exists, Kept, Successor]) {
        let fixture = Fixture::new().await;
        put(&fixture, "leased").await;
        assert_eq!(fixture.push_job(job("a"), mode).await, word);
        let followed = mode == IfExists::Replace;
        assert_eq!(fixture.snapshot().pending.len(), usize::from(followed));
        assert!(fixture.snapshot().ready.is_empty(), "a due successor waits in pending too");
        if followed {
            assert_eq!(fixture.push_job(job("a"), IfExists::Keep).await, Kept);
            assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Exists);
            assert_eq!(fixture.push_job(job_in("a", 60), IfExists::Replace).await, Successor);
        }
    }
}

#[tokio::test]
async fn a_job_cancelled_while_leased_is_followed_in_any_mode() {
    for mode in MODES {
        let fixture = Fixture::new().await;
        fixture.push("a").await;
        let lease = fixture.lease_only("a").await;
        fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap();
        assert_eq!(fixture.push_job(job("a"), mode).await, Successor);
        assert_eq!(ids(&fixture.snapshot().pending), ["a"]);
        assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
        fixture.promote().await;
        fixture.lease_only("a").await;
    }
}

#[tokio::test]
async fn the_second_of_a_batch_meets_the_first() {
    let twice = |first: &str, second: &str| {
        [first, second]
            .map(|payload| NewJob { payload: Bytes::from(payload.to_owned()), ..job("a") })
    };
    for (mode, word, kept) in [
        (IfExists::Reject, Exists, "one"),
        (IfExists::Keep, Kept, "one"),
        (IfExists::Replace, Replaced, "two"),
    ] {
        let fixture = Fixture::new().await;
        assert_eq!(fixture.push_many(&twice("one", "two"), mode).await, [Pushed, word]);
        assert_eq!(Snapshot::text(&fixture.snapshot().jobs, "a"), kept);
        assert_eq!(fixture.snapshot().ready.len(), 1);
    }
    // A later second is where the first was not, and the other way round.
    let fixture = Fixture::new().await;
    let words = fixture.push_many(&[job("a"), job_in("a", 60)], IfExists::Replace).await;
    assert_eq!(words, [Pushed, Replaced]);
    assert_eq!((fixture.snapshot().ready.len(), fixture.snapshot().pending.len()), (0, 1));
    // A job that was refused for its due time does not count as the first.
    let fixture = Fixture::new().await;
    let bad = NewJob { due: Due::At(7), ..job("a") };
    assert_eq!(fixture.push_many(&[bad, job("a")], IfExists::Reject).await, [BadDue, Pushed]);
}

#[tokio::test]
async fn due_times_have_bounds_and_what_is_out_of_them_writes_nothing() {
    let fixture = Fixture::new().await;
    let good = ["0", "+0", "+1", "100000000000", "100000000000000", "1763740800000"];
    let bad = [
        "",
        "-1",
        "-0",
        "00",
        "1",
        "99999999999",
        "100000000000001",
        "1763740800",
        "+inf",
        "inf",
        "nan",
        "soon",
        "+",
        "+-5",
        "++5",
        "1763740800000.5",
        "0x1",
        "+99999999999999",
        "9999999999999999999999999",
    ];
    for due in bad {
        let words: Vec<String> = script::PUSH.call(&fixture, &["keep", "", "a", due, "p", ""]);
        assert_eq!(words, ["bad_due"], "{due}");
        assert_eq!(fixture.keys(), Vec::<String>::new(), "{due}");
    }
    for (i, due) in good.into_iter().enumerate() {
        let id = i.to_string();
        let words: Vec<String> = script::PUSH.call(&fixture, &["keep", "", &id, due, "p", ""]);
        assert_eq!(words, ["pushed"], "{due}");
    }
    // A bad one among good ones is refused alone, and a live one keeps what it has.
    let before = fixture.snapshot();
    let args = ["replace", "", "0", "5", "other", "", "new", "0", "p", ""];
    let words: Vec<String> = script::PUSH.call(&fixture, &args);
    assert_eq!(words, ["bad_due", "pushed"]);
    let after = fixture.snapshot();
    assert_eq!(after.jobs.len(), before.jobs.len() + 1);
    assert_eq!(Snapshot::text(&after.jobs, "0"), "p");
}

#[tokio::test]
async fn options_are_stored_only_where_there_are_any() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_ttr(Duration::from_secs(5));
    fixture.push_job(NewJob { options: options.clone(), ..job("a") }, IfExists::Reject).await;
    fixture.push("b").await;
    assert_eq!(ids(&fixture.snapshot().opts), ["a"]);
    let leases = fixture.lease_up_to(2).await;
    assert_eq!(leases[0].options, Ok(options));
    assert_eq!(leases[1].options, Ok(Options::default()));
}

#[tokio::test]
async fn a_plain_push_inherits_options_and_replaces_due_time_payload_and_attempts() {
    let fixture = Fixture::new().await;
    put(&fixture, "retry").await;
    fixture.plain_push("a", "newer", 0);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(lease.payload, "newer");
    assert_eq!(lease.failures, 0);
    assert_eq!(lease.options.unwrap().max_attempts(), Some(4));
}

#[tokio::test]
async fn topics_are_remembered() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.queue.topics().await.unwrap(), []);
    fixture.push("a").await;
    let known = fixture.queue.topics().await.unwrap();
    assert_eq!(known, std::slice::from_ref(&fixture.topic));
    fixture.queue.register(&known).await.unwrap();
    assert_eq!(fixture.queue.topics().await.unwrap().len(), 1);
}

/// The set of topics is advisory: that it cannot be written makes no stored push an error.
#[tokio::test]
async fn a_push_is_stored_though_the_set_of_topics_is_broken() {
    let fixture = Fixture::new().await;
    let () = fixture.redis(redis::cmd("SET").arg(fixture.whole_key("topics")).arg("text"));
    fixture.push("a").await;
    assert_eq!(fixture.snapshot().jobs.len(), 1);
}
