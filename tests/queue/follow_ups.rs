//! What an ack leaves behind: follow-ups on their way to other topics, results, ids; and the snoozes
//! that are not failures.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, Options, TopicName};
use duebox_queue::{
    Finish, IfExists, Lease, Limits, NewJob, RelayPass, Relayed, Settled, Token, Verdict,
};

use crate::fixture::{BACKOFF, Fixture, drop_it, id, job, nack, release, twin};
use crate::parcel::{Parcel, Word};
use crate::script::{OUTBOX, RELAYED};
use crate::snapshot::{Snapshot, ids};

const HOUR: Duration = Duration::from_secs(3_600);

fn child(name: &str) -> FollowUp {
    FollowUp {
        topic: TopicName::new("sms").unwrap(),
        id: id(name),
        due: FollowUpDue::AfterMs(0),
        payload: Bytes::from("hello"),
        options: Options::default().with_max_attempts(2),
    }
}

fn asking(follow_ups: Vec<FollowUp>) -> Verdict {
    Verdict::Finish(Finish { follow_ups, ..Finish::default() })
}

/// Two topics, and a job of the first that was acked with follow-ups.
async fn acked(follow_ups: Vec<FollowUp>) -> (Fixture, Fixture) {
    let fixture = Fixture::new().await;
    let sms = fixture.beside("sms").await;
    fixture.push("parent").await;
    let lease = fixture.lease_only("parent").await;
    assert_eq!(fixture.settle(lease, asking(follow_ups)).await, Settled::Done);
    (fixture, sms)
}

async fn relay(fixture: &Fixture) -> Relayed {
    fixture.queue.relay(&fixture.shard, &mut RelayPass::default()).await.unwrap()
}

/// What somebody reads of the outbox.
fn read(fixture: &Fixture) -> Vec<Parcel> {
    let outbox = fixture.snapshot().outbox;
    outbox.iter().flat_map(|(field, value)| Parcel::unpack(&fixture.topic, field, value)).collect()
}

#[tokio::test]
async fn follow_ups_are_committed_with_the_ack_and_pushed_to_their_topics() {
    let own = FollowUp { topic: TopicName::new("order.close").unwrap(), ..child("own") };
    let later = FollowUp { due: FollowUpDue::AfterMs(3_600_000), ..child("later") };
    let (fixture, sms) = acked(vec![child("c1"), own, later]).await;
    let before = fixture.snapshot();
    assert_eq!(before.held(), ["meta", "outbox"], "nothing else is left of the parent");
    assert!(sms.snapshot().jobs.is_empty());

    let relayed = relay(&fixture).await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 3, 0));
    assert!(fixture.snapshot().outbox.is_empty());
    let lease = sms.lease_only("c1").await;
    assert_eq!(
        (&lease.payload[..], lease.options.clone()),
        (&b"hello"[..], Ok(child("c1").options))
    );
    assert_eq!(ids(&sms.snapshot().pending), ["later"]);
    fixture.lease_only("own").await;
    assert_eq!(relay(&fixture).await, Relayed::default());
}

#[tokio::test]
async fn no_other_verdict_and_no_stale_ack_pushes_anything() {
    let fixture = Fixture::new().await;
    fixture.push("parent").await;
    let lease = fixture.lease_only("parent").await;
    let stale = Lease { token: Token::expiring_at_us(7), ..twin(&lease) };
    assert_eq!(fixture.settle(stale, asking(vec![child("c")])).await, Settled::Lost);
    assert_eq!(fixture.settle(twin(&lease), asking(vec![child("c")])).await, Settled::Done);
    assert_eq!(fixture.settle(lease, asking(vec![child("d")])).await, Settled::Lost);
    assert_eq!(fixture.snapshot().outbox.len(), 1);
    assert_eq!(read(&fixture)[0].follow_up.id, id("c"));
    assert_eq!(read(&fixture)[0].follow_up.options, child("c").options);
}

#[tokio::test]
async fn a_child_that_is_alive_or_held_is_kept() {
    let (fixture, sms) = acked(vec![child("alive"), child("held")]).await;
    sms.push("held").await;
    let lease = sms.lease_only("held").await;
    let finish = Finish { unique_for: HOUR, ..Finish::default() };
    sms.settle(lease, Verdict::Finish(finish)).await;
    sms.push("alive").await;
    let relayed = relay(&fixture).await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 0, 2));
    assert_eq!(sms.lease_only("alive").await.payload, "alive", "what is alive is left as it is");
}

#[tokio::test]
async fn a_relay_that_died_before_it_deleted_is_repeated_without_a_second_child() {
    let (fixture, sms) = acked(vec![child("c")]).await;
    let parcels = read(&fixture);
    let parcels: Vec<&Parcel> = parcels.iter().collect();
    let soon = fixture.now_ms() + 60_000;
    assert_eq!(Parcel::push_raw(&sms, &parcels, soon), Some(vec![Word::Pushed]));
    // It dies here. The child runs and is long done when the next relay comes.
    let lease = sms.lease_only("c").await;
    assert_eq!(sms.settle(lease, Verdict::Ack).await, Settled::Done);
    for fixture in [&fixture, &sms] {
        fixture.advance(HOUR * 24, &mut []);
    }
    let relayed = relay(&fixture).await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 0, 1));
    assert!(sms.snapshot().jobs.is_empty(), "the child was doubled");
}

/// The child is done, and its mark is in the shard where it went under the old number.
#[tokio::test]
async fn a_relay_that_died_before_the_number_of_shards_changed_is_repeated_without_a_second_child()
{
    // Some of these go elsewhere under the new number.
    let children: Vec<FollowUp> = (0..20).map(|n| child(&format!("c{n}"))).collect();
    let (fixture, sms) = acked(children).await;
    let parcels = read(&fixture);
    let parcels: Vec<&Parcel> = parcels.iter().collect();
    assert!(Parcel::push_raw(&sms, &parcels, fixture.now_ms() + 60_000).is_some());
    let done: Vec<_> =
        sms.lease_up_to(20).await.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
    assert_eq!(sms.settle_many(&done).await, [Settled::Done; 20]);
    let rules = Limits { shards: NonZero::new(4), ..Limits::default() };
    fixture.queue.configure(&sms.topic, &rules).await.unwrap();
    let relayed = relay(&fixture).await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 0, 20), "doubled");
    for number in 0..4 {
        let shard = sms.in_shard(sms.topic.shard(number)).await;
        assert!(shard.snapshot().jobs.is_empty());
    }
}

#[tokio::test]
async fn a_relay_that_slept_is_too_late_once_the_marks_may_be_gone() {
    let (fixture, sms) = acked(vec![child("c")]).await;
    let (parcels, not_after) = (read(&fixture), fixture.now_ms() + 60_000);
    let slow: Vec<&Parcel> = parcels.iter().collect();
    relay(&fixture).await;
    let lease = sms.lease_only("c").await;
    sms.settle(lease, Verdict::Ack).await;
    // In time it meets the mark.
    assert_eq!(Parcel::push_raw(&sms, &slow, not_after), Some(vec![Word::Known]));
    // A minute later it is too late, and in two the mark may go.
    let minute = Duration::from_secs(61);
    sms.advance(minute, &mut []);
    let not_after = not_after - minute.as_millis() as u64;
    assert_eq!(Parcel::push_raw(&sms, &slow, not_after), None);
    assert_eq!(sms.snapshot().inbox.len(), 1, "the mark outlives everybody who could come");
    sms.advance(minute, &mut []);
    let (_, forgotten): (u64, u64) = crate::script::PRUNE_RECORDS.call(&sms, &["1000"]);
    assert_eq!(forgotten, 1);
    assert!(sms.snapshot().held().iter().all(|key| *key == "meta"), "{:?}", sms.snapshot());
}

#[tokio::test]
async fn a_relay_that_died_before_it_let_the_marks_go_leaves_them_for_a_week() {
    let (fixture, sms) = acked(vec![child("c")]).await;
    let parcels = read(&fixture);
    let slow: Vec<&Parcel> = parcels.iter().collect();
    Parcel::push_raw(&sms, &slow, fixture.now_ms() + 60_000);
    let mark = String::from_utf8(parcels[0].mark.clone()).unwrap();
    let until = sms.snapshot().inbox[mark.as_bytes()];
    assert!(until > sms.now_ms() as f64 + 6.9 * 86_400_000.0, "{until}");
    let found: u64 = RELAYED.call(&sms, &[mark.as_str(), "nobody's"]);
    assert_eq!(found, 1);
    assert!(sms.snapshot().inbox[mark.as_bytes()] < sms.now_ms() as f64 + 120_001.0);
    assert_eq!(sms.snapshot().inbox.len(), 1, "an unknown mark is not created");
}

#[tokio::test]
async fn many_entries_are_relayed_in_bounded_rounds() {
    let fixture = Fixture::new().await;
    let sms = fixture.beside("sms").await;
    let parents: Vec<NewJob> = (0..250).map(|n| job(&format!("p{n}"))).collect();
    fixture.push_many(&parents, IfExists::Reject).await;
    let leases = fixture.lease_up_to(1_000).await;
    let acks = leases.into_iter().map(|lease| {
        let name = lease.id.to_string();
        lease.settle(asking(vec![child(&format!("{name}.1")), child(&format!("{name}.2"))]))
    });
    fixture.settle_many(&acks.collect::<Vec<_>>()).await;
    let (mut pushed, mut rounds) = (0, 0);
    loop {
        let relayed = relay(&fixture).await;
        assert!(relayed.entries <= 100);
        (pushed, rounds) = (pushed + relayed.pushed, rounds + 1);
        if !relayed.more {
            break;
        }
    }
    assert_eq!((pushed, sms.snapshot().jobs.len(), rounds), (500, 500, 4));
}

#[tokio::test]
async fn an_entry_that_cannot_be_read_is_named_and_holds_up_no_other() {
    let (fixture, sms) = acked(vec![child("c")]).await;
    fixture.on_key("HSET", "outbox", &["1:odd", "no time and no list"]);
    let relayed = relay(&fixture).await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.faults.len()), (1, 1, 1));
    assert!(relayed.faults[0].contains("1:odd"), "{:?}", relayed.faults);
    sms.lease_only("c").await;
    let answer: Vec<redis::Value> = OUTBOX.call(&fixture, &["9", "999"]);
    assert_eq!(answer.len(), 3, "it is still there");
}

#[tokio::test]
async fn a_done_job_is_kept_with_its_result_and_not_a_later_ones_payload() {
    let fixture = Fixture::new().await;
    let finish = |result: Option<&'static str>| {
        let (info, result) = (Some(r#"{"attempt":1}"#.to_owned()), result.map(Bytes::from));
        Verdict::Finish(Finish { info, result, ..Finish::default() })
    };
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, finish(Some("42"))).await, Settled::Done);
    let after = fixture.snapshot();
    assert_eq!(after.held(), ["meta", "done:jobs", "done:info", "done:result", "done"]);
    assert_eq!(Snapshot::text(&after.done_jobs, "a"), "a");
    assert_eq!(Snapshot::text(&after.done_result, "a"), "42");
    // The same id again, with a successor behind it and no result: nothing of the first is mixed in.
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.plain_push("a", "newer", 0);
    assert_eq!(fixture.settle(lease, finish(None)).await, Settled::Done);
    let after = fixture.snapshot();
    assert!(after.done_jobs.is_empty() && after.done_result.is_empty(), "{after:?}");
    assert_eq!(ids(&after.done_info), ["a"]);
    fixture.promote().await;
    assert_eq!(fixture.lease_only("a").await.payload, "newer");
}

#[tokio::test]
async fn a_snooze_spends_no_attempt_and_is_a_nack_once_snoozes_are_spent() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let snooze = || Verdict::Snooze {
        delay: Duration::from_secs(5),
        max_snoozes: 2,
        nack_delay: BACKOFF,
        max_attempts: 2,
        info: r#"{"class":"nack"}"#.to_owned(),
    };
    for (snoozes, word) in [(0, Settled::Snoozed), (1, Settled::Snoozed), (2, Settled::Retry)] {
        let lease = fixture.lease_only("a").await;
        assert_eq!((lease.failures, lease.crashes, lease.snoozes), (0, 0, snoozes));
        let before = fixture.now_ms();
        assert_eq!(fixture.settle(lease, snooze()).await, word);
        let wait = fixture.snapshot().retry[b"a".as_slice()] - before as f64;
        let wanted = if word == Settled::Snoozed { 5_000.0 } else { 60_000.0 };
        assert!((wanted..wanted + 5_000.0).contains(&wait), "{wait}");
        fixture.advance(BACKOFF, &mut []);
        fixture.promote().await;
    }
    let after = fixture.snapshot();
    assert_eq!(Snapshot::text(&after.attempts, "a"), "2000000001");
    assert_eq!(Snapshot::text(&after.errors, "a"), r#"{"class":"nack"}"#);
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, snooze()).await, Settled::Dead, "its last attempt");
    let after = fixture.snapshot();
    assert!(after.attempts.is_empty() && after.errors.is_empty());
}

#[tokio::test]
async fn the_three_counts_of_a_job_do_not_touch_each_other() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.on_key("HSET", "attempts", &["a", "3998000007"]);
    let lease = fixture.lease_only("a").await;
    assert_eq!((lease.failures, lease.crashes, lease.snoozes), (7, 998, 3));
    let verdict = Verdict::Nack { delay: BACKOFF, max_attempts: 99, info: "{}".to_owned() };
    assert_eq!(fixture.settle(lease, verdict).await, Settled::Retry);
    assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "3998000008");
}

#[tokio::test]
async fn what_a_job_failed_of_last_goes_with_its_attempts() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, nack()).await;
    assert!(Snapshot::text(&fixture.snapshot().errors, "a").contains("not yet"));
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, release()).await;
    assert_eq!(fixture.snapshot().errors.len(), 1, "a release is not an attempt");
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    assert!(fixture.snapshot().errors.is_empty());
}
