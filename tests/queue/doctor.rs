//! The doctor: each fault that it knows, found, left alone or put right; and nothing else touched,
//! while everybody works.

mod concurrent;
mod faults;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use duebox_job::{FollowUp, FollowUpDue, Options, Priority, Shard, TopicName};
use duebox_queue::{
    Checkup, Finding, FindingKind as Kind, Finish, IfExists, Limits, NewJob, Unexamined, Verdict,
};

use crate::fixture::{Fixture, drop_it, id, job, job_in, nack};
use crate::snapshot::Snapshot;

async fn examine(fixture: &Fixture, checkup: Checkup) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unexamined =
        fixture.queue.examine(&fixture.shard, checkup, &mut |finding| findings.push(finding)).await;
    assert_eq!(unexamined.unwrap(), []);
    findings
}

/// The kind and the subject of each finding, in the order of their names.
fn named(findings: &[Finding]) -> Vec<(Kind, String)> {
    let mut named: Vec<_> = findings.iter().map(|f| (f.kind, f.subject_text())).collect();
    named.sort();
    named
}

fn keyed(name: &str, key: &str) -> NewJob {
    NewJob { options: Options::default().with_key(key).unwrap(), ..job(name) }
}

fn ranked(name: &str, priority: Priority) -> NewJob {
    NewJob { options: Options::default().with_priority(priority), ..job(name) }
}

fn finish() -> Verdict {
    let follow_up = FollowUp {
        topic: TopicName::new("sms").unwrap(),
        id: id("child"),
        due: FollowUpDue::AfterMs(0),
        payload: "hello".into(),
        options: Options::default(),
    };
    Verdict::Finish(Finish {
        unique_for: Duration::from_secs(600),
        info: Some(r#"{"attempt":1}"#.to_owned()),
        result: Some("42".into()),
        follow_ups: vec![follow_up],
    })
}

/// A topic with a job in every state, made by verbs alone.
pub(crate) async fn sound() -> Fixture {
    let fixture = Fixture::new().await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for (name, key, verdict) in
        [("dead", "b", drop_it()), ("done", "b", finish()), ("retry", "c", nack())]
    {
        fixture.push_job(keyed(name, key), IfExists::Reject).await;
        let lease = fixture.lease_only(name).await;
        fixture.settle(lease, verdict).await;
    }
    for name in ["leased", "cancelled", "followed"] {
        fixture.push(name).await;
    }
    assert_eq!(fixture.lease_up_to(9).await.len(), 3);
    fixture.queue.cancel(&fixture.topic, &id("cancelled")).await.unwrap();
    fixture.push_job(job_in("followed", 60), IfExists::Replace).await;
    for name in ["first", "second", "third"] {
        fixture.push_job(keyed(name, "a"), IfExists::Reject).await;
    }
    for name in ["ready", "superseded"] {
        fixture.push(name).await;
    }
    for (name, priority) in [("high", Priority::High), ("low", Priority::Low)] {
        fixture.push_job(ranked(name, priority), IfExists::Reject).await;
    }
    fixture.push_job(job_in("pending", 60), IfExists::Reject).await;
    fixture.plain_push("superseded", "newer", fixture.now_ms() + 60_000);
    fixture.plain_push("now", "plain", 0);
    let topic = fixture.snapshot();
    assert_eq!((topic.blocked.len(), topic.turns_of.len()), (2, 2), "{topic:?}");
    fixture
}

#[tokio::test]
async fn a_sound_topic_has_no_findings() {
    let fixture = sound().await;
    let before = fixture.snapshot().state();
    assert_eq!(examine(&fixture, Checkup::LOOK).await, []);
    assert_eq!(examine(&fixture, Checkup::REPAIR).await, []);
    assert_eq!(fixture.snapshot().state(), before);
    let none = Fixture::new().await;
    assert_eq!(examine(&none, Checkup::REPAIR).await, []);
    assert_eq!(none.keys(), [""; 0]);
}

fn owned(named: &[(Kind, &str)]) -> Vec<(Kind, String)> {
    let mut owned: Vec<_> = named.iter().map(|(kind, what)| (*kind, (*what).to_owned())).collect();
    owned.sort();
    owned
}

#[tokio::test]
async fn nothing_that_was_pushed_is_lost() {
    let fixture = sound().await;
    fixture.on_key("HSET", "jobs", &["orphan", "p"]);
    fixture.on_key("HSET", "opts", &["orphan", r#"{"ttr_ms":5}"#]);
    fixture.on_key("ZADD", "pending", &["1763740800", "pending"]);
    fixture.on_key("HSET", "dead:jobs", &["buried", "b"]);
    fixture.on_key("HSET", "outbox", &["1763740800000000:x", "soon"]);
    let repaired = examine(&fixture, Checkup::REPAIR).await;
    assert_eq!(repaired.len(), 4, "{repaired:?}");
    let after = fixture.snapshot();
    for (name, payload, class) in
        [("orphan", "p", "orphan"), ("pending", "pending", "bad_due"), ("buried", "b", "orphan")]
    {
        assert_eq!(Snapshot::text(&after.dead_jobs, name), payload);
        assert!(Snapshot::text(&after.dead_info, name).contains(class), "{after:?}");
    }
    assert_eq!(Snapshot::text(&after.dead_opts, "orphan"), r#"{"ttr_ms":5}"#);
    let broken: Vec<_> = fixture.keys().into_iter().filter(|key| key.contains("broken")).collect();
    let set_aside: String =
        fixture.redis(redis::cmd("HGET").arg(&broken[0]).arg("1763740800000000:x"));
    assert_eq!((broken.len(), set_aside.as_str()), (1, "soon"));
    let requeued = fixture.queue.requeue(&fixture.topic, &[id("orphan")]).await.unwrap();
    assert_eq!(requeued.len(), 1);
    assert_eq!(Snapshot::text(&fixture.snapshot().jobs, "orphan"), "p");
}

#[tokio::test]
async fn what_the_topic_wants_forgotten_is_forgotten() {
    let fixture = sound().await;
    fixture.on_key("HSET", "jobs", &["orphan", "p"]);
    fixture.on_key("ZADD", "pending", &["1763740800", "pending"]);
    let dead = fixture.snapshot().dead_jobs;
    let checkup = Checkup { bury_orphans: false, bury_bad_dues: false, ..Checkup::REPAIR };
    let done: Vec<_> = examine(&fixture, checkup).await.into_iter().map(|f| f.done).collect();
    assert_eq!(done, ["forgotten", "forgotten"]);
    assert_eq!(fixture.snapshot().dead_jobs, dead);
    assert_eq!(examine(&fixture, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn options_that_cannot_be_read_are_only_reported() {
    let fixture = sound().await;
    fixture.on_key("HSET", "opts", &["ready", r#"{"ttr_ms":5,"speed":1}"#]);
    let before = fixture.snapshot().state();
    let findings = examine(&fixture, Checkup::REPAIR).await;
    assert_eq!(named(&findings), [(Kind::BadOptions, "ready".to_owned())]);
    assert!(findings[0].detail.contains("speed") && !findings[0].is_repaired());
    assert_eq!(fixture.snapshot().state(), before);
}

#[tokio::test]
async fn keys_of_a_wrong_type_are_put_aside() {
    let fixture = sound().await;
    for name in ["attempts", "errors", "unique", "retry"] {
        fixture.on_key("DEL", name, &[]);
    }
    fixture.on_key("SET", "attempts", &["one"]);
    fixture.on_key("RPUSH", "unique", &["a", "b"]);
    let mut found = Vec::new();
    let mut tell = |finding| found.push(finding);
    let unexamined = fixture.queue.examine(&fixture.shard, Checkup::LOOK, &mut tell).await.unwrap();
    assert_eq!(unexamined, [Unexamined::AllButTypes]);
    let keys = [fixture.key("attempts"), fixture.key("unique")].map(|key| (Kind::WrongType, key));
    assert_eq!(named(&found), keys);
    assert!(found.iter().any(|f| f.detail == "a string, not a hash"), "{found:?}");

    let repaired = examine(&fixture, Checkup::REPAIR).await;
    let of_type: Vec<_> = repaired.iter().filter(|f| f.kind == Kind::WrongType).collect();
    assert_eq!(of_type.len(), 2, "{repaired:?}");
    for finding in of_type {
        let broken = finding.done.strip_prefix("renamed to ").unwrap();
        assert!(broken.starts_with(&finding.subject_text()) && broken.contains(":broken:"));
        assert!(fixture.redis::<bool>(redis::cmd("EXISTS").arg(broken)), "{broken}");
    }
    assert_eq!(examine(&fixture, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn faults_by_the_thousand_are_put_right_page_by_page() {
    let fixture = Fixture::new().await;
    let mut plant = redis::pipe();
    for n in 0..3_000 {
        plant.cmd("HSET").arg(fixture.key("jobs")).arg(format!("orphan-{n}")).arg("p");
        plant.cmd("ZADD").arg(fixture.key("pending")).arg(5).arg(format!("bare-{n}"));
        plant.cmd("HSET").arg(fixture.key("attempts")).arg(format!("bare-{n}")).arg(1);
    }
    fixture.exec(&plant);
    let before = fixture.snapshot().state();
    assert_eq!(kinds(&examine(&fixture, Checkup::LOOK).await).len(), 3);
    assert_eq!(fixture.snapshot().state(), before);
    let repaired = examine(&fixture, Checkup::REPAIR).await;
    // An id without a payload takes its attempts along.
    let distinct: BTreeSet<_> = named(&repaired).into_iter().collect();
    assert_eq!(distinct.len(), 6_000);
    assert_eq!(kinds(&repaired), BTreeSet::from([Kind::NoPayload, Kind::Orphan]));
    assert_eq!(fixture.snapshot().dead_jobs.len(), 3_000);
    assert_eq!(examine(&fixture, Checkup::LOOK).await, []);
}

fn kinds(findings: &[Finding]) -> BTreeSet<Kind> {
    findings.iter().map(|finding| finding.kind).collect()
}

/// Plain producers may have any bytes as an id.
#[tokio::test]
async fn odd_ids_are_examined_like_others() {
    let fixture = Fixture::new().await;
    let odd: [&[u8]; 4] = [b"\xff\x00", b"", b"a\r\nb", b"a b"];
    for id in odd {
        fixture.redis::<u64>(redis::cmd("HSET").arg(fixture.key("jobs")).arg(id).arg(b"\xfe"));
        let bare = [id, b"!"].concat();
        fixture.redis::<u64>(redis::cmd("ZADD").arg(fixture.key("ready")).arg(5).arg(bare));
    }
    let repaired = examine(&fixture, Checkup::REPAIR).await;
    let subjects: BTreeSet<_> = repaired.iter().map(|finding| finding.subject.clone()).collect();
    assert!(odd.iter().all(|id| subjects.contains(*id)), "{subjects:?}");
    assert_eq!((repaired.len(), fixture.snapshot().dead_jobs.len()), (8, 4));
    assert_eq!(examine(&fixture, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn large_payloads_make_small_pages() {
    let fixture = Fixture::new().await;
    let large = "x".repeat(300_000);
    for n in 0..40 {
        fixture.on_key("HSET", "jobs", &[&format!("orphan-{n}"), &large]);
    }
    assert_eq!(examine(&fixture, Checkup::REPAIR).await.len(), 40);
    let after = fixture.snapshot();
    assert_eq!((after.jobs.len(), after.dead_jobs.len()), (0, 40));
}

#[tokio::test]
async fn topics_and_their_set_are_compared() {
    let fixture = sound().await;
    let prefix = fixture.key("").split(':').next().unwrap().to_owned();
    let set = format!("{prefix}:topics");
    let plain = fixture.beside("plain").await;
    plain.plain_push("1", "p", 0);
    for name in ["idle", "served", "no topic"] {
        let _: u64 = fixture.redis(redis::cmd("SADD").arg(&set).arg(name));
    }
    let served = |topic: &TopicName| topic.as_str() == "served";
    let compare = async |repair| {
        let mut findings = Vec::new();
        let shards =
            fixture.queue.examine_topics(repair, served, &mut |f| findings.push(f)).await.unwrap();
        (named(&findings), shards.iter().map(Shard::to_string).collect::<Vec<_>>())
    };
    let members = || fixture.redis::<BTreeSet<String>>(redis::cmd("SMEMBERS").arg(&set));
    let wrong =
        [(Kind::BadTopic, "no topic"), (Kind::EmptyTopic, "idle"), (Kind::UnlistedTopic, "plain")];
    let all = ["idle", "order.close", "plain", "served"].map(str::to_owned).to_vec();
    let before = members();
    assert_eq!(compare(false).await, (owned(&wrong), all.clone()));
    assert_eq!(members(), before);
    assert_eq!(compare(true).await, (owned(&wrong), all));
    assert_eq!(members(), ["order.close", "plain", "served"].map(str::to_owned).into());
    assert_eq!(compare(true).await.0, []);

    let _: () = fixture.redis(redis::cmd("SET").arg(&set).arg("x"));
    assert_eq!(compare(false).await.0, [(Kind::WrongType, set.clone())]);
    let (found, topics) = compare(true).await;
    assert!(found.contains(&(Kind::WrongType, set)) && found.len() == 3, "{found:?}");
    assert_eq!(topics, ["order.close", "plain"]);
    assert_eq!(compare(true).await.0, []);
}
