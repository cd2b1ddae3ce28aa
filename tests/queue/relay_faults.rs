//! A target that refuses its follow-ups holds up no other, and no follow-up is pushed twice however long
//! that lasts.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, Options, TopicName};
use duebox_queue::{Finish, IfExists, NewJob, RelayPass, Relayed, Settled, Verdict};

use crate::fixture::{Fixture, id, job};
use crate::script::{PRUNE_RECORDS, TRIM_OUTBOX};

const DAY: Duration = Duration::from_secs(86_400);
/// Comes before the healthy topic in every order.
const SICK: &str = "a.sick";

fn child(topic: &str, name: &str) -> FollowUp {
    FollowUp {
        topic: TopicName::new(topic).unwrap(),
        id: id(name),
        due: FollowUpDue::AfterMs(0),
        payload: Bytes::from_static(b"2 0 {}\n"),
        options: Options::default(),
    }
}

/// A topic, a sick one and a healthy one for its follow-ups.
struct Family {
    parent: Fixture,
    sick: Fixture,
    sms: Fixture,
}

impl Family {
    /// The key of the sick topic has a wrong type.
    async fn with(sick_key: &str) -> Self {
        let parent = Fixture::new().await;
        let (sick, sms) = (parent.beside(SICK).await, parent.beside("sms").await);
        sick.on_key("SET", sick_key, &["nonsense"]);
        Self { parent, sick, sms }
    }

    /// Acks a job with these follow-ups.
    async fn ack(&self, name: &str, follow_ups: Vec<FollowUp>) {
        self.parent.push(name).await;
        let lease = self.parent.lease_only(name).await;
        let verdict = Verdict::Finish(Finish { follow_ups, ..Finish::default() });
        assert_eq!(self.parent.settle(lease, verdict).await, Settled::Done);
    }

    /// Relays one pass.
    async fn relay(&self) -> Relayed {
        let (mut pass, mut all) = (RelayPass::default(), Relayed::default());
        for _ in 0..50 {
            let shard = &self.parent.shard;
            let relayed = self.parent.queue.relay(shard, &mut pass).await.unwrap();
            all.entries += relayed.entries;
            all.pushed += relayed.pushed;
            all.kept += relayed.kept;
            all.faults.extend(relayed.faults);
            if !relayed.more {
                return all;
            }
        }
        panic!("the pass does not end: {all:?}");
    }

    fn advance(&self, by: Duration) {
        for fixture in [&self.parent, &self.sms] {
            fixture.advance(by, &mut []);
            let _: (u64, u64) = PRUNE_RECORDS.call(fixture, &["1000"]);
        }
    }

    /// Runs this job, which must be the only one.
    async fn run(&self, name: &str) {
        let lease = self.sms.lease_only(name).await;
        assert_eq!(self.sms.settle(lease, Verdict::Ack).await, Settled::Done);
    }

    fn outbox_children(&self) -> usize {
        let outbox = self.parent.snapshot().outbox;
        let children = |value: &Vec<u8>| value.windows(8).filter(|at| at == b"\"topic\":").count();
        outbox.values().map(children).sum()
    }
}

#[tokio::test]
async fn a_target_that_refuses_holds_up_no_other_and_repeats_no_child() {
    // `meta` is read before the script is called.
    for key in ["pending", "meta", "inbox", "unique"] {
        let family = Family::with(key).await;
        family.ack("p", vec![child("sms", "c1"), child(SICK, "s"), child("sms", "c2")]).await;
        let relayed = family.relay().await;
        assert_eq!((relayed.entries, relayed.pushed), (0, 2), "{key}: {relayed:?}");
        assert!(relayed.faults.len() == 1 && relayed.faults[0].contains(SICK), "{relayed:?}");
        assert_eq!(family.outbox_children(), 1, "{key}: what was pushed is out of the outbox");
        let leases = family.sms.lease_up_to(9).await;
        let acks: Vec<_> = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
        assert_eq!(family.sms.settle_many(&acks).await, [Settled::Done; 2]);
        // The marks are gone by now.
        family.advance(9 * DAY);
        assert_eq!(family.relay().await.pushed, 0);
        family.sick.on_key("DEL", key, &[]);
        let relayed = family.relay().await;
        assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 1, 0), "{key}");
        assert_eq!(family.sick.lease_only("s").await.payload, "2 0 {}\n");
        assert!(family.sms.snapshot().jobs.is_empty(), "{key}: a child ran again");
        assert!(family.parent.snapshot().outbox.is_empty());
    }
}

#[tokio::test]
async fn entries_that_stay_do_not_hide_others() {
    let family = Family::with("pending").await;
    let parents: Vec<NewJob> = (0..300).map(|n| job(&format!("p{n}"))).collect();
    family.parent.push_many(&parents, IfExists::Reject).await;
    let finish = |lease: duebox_queue::Lease| {
        let follow_ups = vec![child(SICK, &format!("{}.1", lease.id))];
        lease.settle(Verdict::Finish(Finish { follow_ups, ..Finish::default() }))
    };
    let leases = family.parent.lease_up_to(300).await;
    let acks: Vec<_> = leases.into_iter().map(finish).collect();
    family.parent.settle_many(&acks).await;
    for n in 0..5 {
        let name = format!("c{n}");
        family.ack("p", vec![child("sms", &name)]).await;
        let relayed = family.relay().await;
        assert_eq!((relayed.entries, relayed.pushed), (1, 1), "{relayed:?}");
        assert_eq!(relayed.faults.len(), 1, "the target was asked once: {:?}", relayed.faults);
        family.run(&name).await;
    }
}

/// An earlier version stored a list, which is not trimmed.
#[tokio::test]
async fn a_mark_lasts_as_long_as_its_entry() {
    let family = Family::with("pending").await;
    let acked = family.parent.now_ms();
    let list = format!(
        r#"{acked} [{{"topic":"sms","id":"c"}},{{"topic":"{SICK}","id":"s","payload":"x"}}]"#
    );
    family.parent.on_key("HSET", "outbox", &["1763740800000000:p", &list]);
    assert_eq!(family.relay().await.pushed, 1);
    family.run("c").await;
    for _ in 0..3 {
        family.advance(6 * DAY);
        let relayed = family.relay().await;
        assert_eq!((relayed.pushed, relayed.kept), (0, 1), "the child is pushed again");
    }
    family.sick.on_key("DEL", "pending", &[]);
    let relayed = family.relay().await;
    assert_eq!((relayed.entries, relayed.pushed, relayed.kept), (1, 1, 1));
    let left = family.sms.snapshot().inbox.into_values().next().unwrap();
    assert!(left < family.sms.now_ms() as f64 + 120_001.0, "it is released");
}

/// An expired mark that is not removed yet still says that its follow-up was pushed.
#[tokio::test]
async fn an_expired_mark_is_seen_by_the_relay_that_would_remove_it() {
    let family = Family::with("pending").await;
    family.parent.on_key("HSET", "outbox", &["1:p", r#"1763740800000 [{"topic":"sms","id":"c"}]"#]);
    let due = family.sms.now_ms() - 1_000;
    family.sms.on_key("ZADD", "inbox", &[&due.to_string(), "order.close:1:other:1"]);
    let mark = format!("{}:1:p:1", family.parent.shard.tag());
    family.sms.on_key("ZADD", "inbox", &[&due.to_string(), &mark]);
    let relayed = family.relay().await;
    assert_eq!((relayed.pushed, relayed.kept), (0, 1), "{relayed:?}");
    assert_eq!(family.sms.snapshot().inbox.len(), 1, "other expired marks are removed");
}

#[tokio::test]
async fn entries_are_trimmed_by_number_whatever_the_payloads_hold() {
    let fixture = Fixture::new().await;
    let all: Vec<FollowUp> = ["a", "b", "c"].map(|name| child("sms", name)).into();
    let stored = |numbers: &[u64]| -> Vec<u8> {
        let whole = FollowUp::encode(&all);
        let each = whole.len() / 3;
        let mut value = b"1763740800000 ".to_vec();
        for number in numbers {
            let at = (*number as usize - 1) * each;
            value.extend_from_slice(&whole[at..at + each]);
        }
        value
    };
    let value = || fixture.snapshot().outbox.get(b"7:p".as_slice()).cloned();
    let whole = String::from_utf8(stored(&[1, 2, 3])).unwrap();
    fixture.on_key("HSET", "outbox", &["7:p", &whole]);
    let trim = |numbers: &str| -> u64 {
        let trimmed: Vec<u64> = TRIM_OUTBOX.call(&fixture, &["7:p", numbers]);
        trimmed[0]
    };
    assert_eq!((trim("2"), value()), (1, Some(stored(&[1, 3]))));
    assert_eq!((trim("2 9"), value()), (1, Some(stored(&[1, 3]))), "it is repeated");
    assert_eq!((trim("1"), value()), (1, Some(stored(&[3]))));
    assert_eq!((trim("3"), value()), (1, None), "nothing is left of it");
    assert_eq!(trim("3"), 1, "it is gone");
    for odd in ["1 []", "1 1 99 {}\nshort", "soon"] {
        fixture.on_key("HSET", "outbox", &["7:p", odd]);
        assert_eq!((trim("1"), value()), (0, Some(odd.as_bytes().to_vec())), "{odd}");
    }
}
