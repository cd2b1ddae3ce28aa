//! The doctor: each fault that it knows, found, left alone or put right; and nothing else touched,
//! while everybody works.

mod beside;
mod faults;

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_job::{FollowUp, FollowUpDue, Options, Priority, TopicName};
use duebox_queue::{
    Checkup, Finding, FindingKind as Kind, Finish, IfExists, NewJob, Rules, Unexamined, Verdict,
};

use crate::ground::{Ground, drop_it, id, job, job_in, nack};
use crate::snapshot::Snapshot;

async fn examine(ground: &Ground, checkup: Checkup) -> Vec<Finding> {
    let mut findings = Vec::new();
    let unexamined =
        ground.queue.examine(&ground.topic, checkup, &mut |finding| findings.push(finding)).await;
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
async fn sound() -> Ground {
    let ground = Ground::new().await;
    let rules = Rules { per_key: 1, ..Rules::default() };
    ground.queue.configure(&ground.topic, &rules).await.unwrap();
    for (name, key, verdict) in
        [("dead", "b", drop_it()), ("done", "b", finish()), ("retry", "c", nack())]
    {
        ground.push_job(keyed(name, key), IfExists::Reject).await;
        let lease = ground.lease_only(name).await;
        ground.settle(lease, verdict).await;
    }
    for name in ["leased", "cancelled", "followed"] {
        ground.push(name).await;
    }
    assert_eq!(ground.lease_up_to(9).await.len(), 3);
    ground.queue.cancel(&ground.topic, &id("cancelled")).await.unwrap();
    ground.push_job(job_in("followed", 60), IfExists::Replace).await;
    for name in ["first", "second", "third"] {
        ground.push_job(keyed(name, "a"), IfExists::Reject).await;
    }
    for name in ["ready", "superseded"] {
        ground.push(name).await;
    }
    for (name, priority) in [("high", Priority::High), ("low", Priority::Low)] {
        ground.push_job(ranked(name, priority), IfExists::Reject).await;
    }
    ground.push_job(job_in("pending", 60), IfExists::Reject).await;
    ground.plain_push("superseded", "newer", ground.now_ms() + 60_000);
    ground.plain_push("now", "plain", 0);
    let topic = ground.snapshot();
    assert_eq!((topic.blocked.len(), topic.turns_of.len()), (2, 2), "{topic:?}");
    ground
}

#[tokio::test]
async fn a_sound_topic_has_no_findings() {
    let ground = sound().await;
    let before = ground.snapshot().state();
    assert_eq!(examine(&ground, Checkup::LOOK).await, []);
    assert_eq!(examine(&ground, Checkup::REPAIR).await, []);
    assert_eq!(ground.snapshot().state(), before);
    let none = Ground::new().await;
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
    let ground = sound().await;
    ground.on_key("HSET", "jobs", &["orphan", "p"]);
    ground.on_key("HSET", "opts", &["orphan", r#"{"ttr_ms":5}"#]);
    ground.on_key("ZADD", "pending", &["1763740800", "pending"]);
    ground.on_key("HSET", "dead:jobs", &["buried", "b"]);
    ground.on_key("HSET", "outbox", &["1763740800000000:x", "soon"]);
    let repaired = examine(&ground, Checkup::REPAIR).await;
    assert_eq!(repaired.len(), 4, "{repaired:?}");
    let after = ground.snapshot();
    for (name, payload, class) in
        [("orphan", "p", "orphan"), ("pending", "pending", "bad_due"), ("buried", "b", "orphan")]
    {
        assert_eq!(Snapshot::text(&after.dead_jobs, name), payload);
        assert!(Snapshot::text(&after.dead_info, name).contains(class), "{after:?}");
    }
    assert_eq!(Snapshot::text(&after.dead_opts, "orphan"), r#"{"ttr_ms":5}"#);
    let broken: Vec<_> = ground.keys().into_iter().filter(|key| key.contains("broken")).collect();
    let set_aside: String =
        ground.redis(redis::cmd("HGET").arg(&broken[0]).arg("1763740800000000:x"));
    assert_eq!((broken.len(), set_aside.as_str()), (1, "soon"));
    let requeued = ground.queue.requeue(&ground.topic, &[id("orphan")]).await.unwrap();
    assert_eq!(requeued.len(), 1);
    assert_eq!(Snapshot::text(&ground.snapshot().jobs, "orphan"), "p");
}

#[tokio::test]
async fn what_the_topic_wants_forgotten_is_forgotten() {
    let ground = sound().await;
    ground.on_key("HSET", "jobs", &["orphan", "p"]);
    ground.on_key("ZADD", "pending", &["1763740800", "pending"]);
    let dead = ground.snapshot().dead_jobs;
    let checkup = Checkup { bury_orphans: false, bury_bad_dues: false, ..Checkup::REPAIR };
    let done: Vec<_> = examine(&ground, checkup).await.into_iter().map(|f| f.done).collect();
    assert_eq!(done, ["forgotten", "forgotten"]);
    assert_eq!(ground.snapshot().dead_jobs, dead);
    assert_eq!(examine(&ground, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn options_that_cannot_be_read_are_only_reported() {
    let ground = sound().await;
    ground.on_key("HSET", "opts", &["ready", r#"{"ttr_ms":5,"speed":1}"#]);
    let before = ground.snapshot().state();
    let findings = examine(&ground, Checkup::REPAIR).await;
    assert_eq!(named(&findings), [(Kind::BadOptions, "ready".to_owned())]);
    assert!(findings[0].detail.contains("speed") && !findings[0].is_repaired());
    assert_eq!(ground.snapshot().state(), before);
}

#[tokio::test]
async fn keys_of_a_wrong_type_are_put_aside() {
    let ground = sound().await;
    for name in ["attempts", "errors", "unique", "retry"] {
        ground.on_key("DEL", name, &[]);
    }
    ground.on_key("SET", "attempts", &["one"]);
    ground.on_key("RPUSH", "unique", &["a", "b"]);
    let mut found = Vec::new();
    let mut tell = |finding| found.push(finding);
    let unexamined = ground.queue.examine(&ground.topic, Checkup::LOOK, &mut tell).await.unwrap();
    assert_eq!(unexamined, [Unexamined::AllButTypes]);
    let keys = [ground.key("attempts"), ground.key("unique")].map(|key| (Kind::WrongType, key));
    assert_eq!(named(&found), keys);
    assert!(found.iter().any(|f| f.detail == "a string, and no hash"), "{found:?}");

    let repaired = examine(&ground, Checkup::REPAIR).await;
    let of_type: Vec<_> = repaired.iter().filter(|f| f.kind == Kind::WrongType).collect();
    assert_eq!(of_type.len(), 2, "{repaired:?}");
    for finding in of_type {
        let broken = finding.done.strip_prefix("renamed to ").unwrap();
        assert!(broken.starts_with(&finding.subject_text()) && broken.contains(":broken:"));
        assert!(ground.redis::<bool>(redis::cmd("EXISTS").arg(broken)), "{broken}");
    }
    assert_eq!(examine(&ground, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn faults_by_the_thousand_are_put_right_page_by_page() {
    let ground = Ground::new().await;
    let mut plant = redis::pipe();
    for n in 0..3_000 {
        plant.cmd("HSET").arg(ground.key("jobs")).arg(format!("orphan-{n}")).arg("p");
        plant.cmd("ZADD").arg(ground.key("pending")).arg(5).arg(format!("bare-{n}"));
        plant.cmd("HSET").arg(ground.key("attempts")).arg(format!("bare-{n}")).arg(1);
    }
    let () = plant.exec_async(&mut ground.queue.redis()).await.unwrap();
    let before = ground.snapshot().state();
    assert_eq!(kinds(&examine(&ground, Checkup::LOOK).await).len(), 3);
    assert_eq!(ground.snapshot().state(), before);
    let repaired = examine(&ground, Checkup::REPAIR).await;
    // An id without a payload takes its attempts along.
    let distinct: BTreeSet<_> = named(&repaired).into_iter().collect();
    assert_eq!(distinct.len(), 6_000);
    assert_eq!(kinds(&repaired), BTreeSet::from([Kind::NoPayload, Kind::Orphan]));
    assert_eq!(ground.snapshot().dead_jobs.len(), 3_000);
    assert_eq!(examine(&ground, Checkup::LOOK).await, []);
}

fn kinds(findings: &[Finding]) -> BTreeSet<Kind> {
    findings.iter().map(|finding| finding.kind).collect()
}

/// Plain producers may have any bytes as an id.
#[tokio::test]
async fn odd_ids_are_examined_like_others() {
    let ground = Ground::new().await;
    let odd: [&[u8]; 4] = [b"\xff\x00", b"", b"a\r\nb", b"a b"];
    for id in odd {
        ground.redis::<u64>(redis::cmd("HSET").arg(ground.key("jobs")).arg(id).arg(b"\xfe"));
        let bare = [id, b"!"].concat();
        ground.redis::<u64>(redis::cmd("ZADD").arg(ground.key("ready")).arg(5).arg(bare));
    }
    let repaired = examine(&ground, Checkup::REPAIR).await;
    let subjects: BTreeSet<_> = repaired.iter().map(|finding| finding.subject.clone()).collect();
    assert!(odd.iter().all(|id| subjects.contains(*id)), "{subjects:?}");
    assert_eq!((repaired.len(), ground.snapshot().dead_jobs.len()), (8, 4));
    assert_eq!(examine(&ground, Checkup::LOOK).await, []);
}

#[tokio::test]
async fn large_payloads_make_small_pages() {
    let ground = Ground::new().await;
    let large = "x".repeat(300_000);
    for n in 0..40 {
        ground.on_key("HSET", "jobs", &[&format!("orphan-{n}"), &large]);
    }
    assert_eq!(examine(&ground, Checkup::REPAIR).await.len(), 40);
    let after = ground.snapshot();
    assert_eq!((after.jobs.len(), after.dead_jobs.len()), (0, 40));
}

#[tokio::test]
async fn topics_and_their_set_are_compared() {
    let ground = sound().await;
    let prefix = ground.key("").split(':').next().unwrap().to_owned();
    let set = format!("{prefix}:topics");
    let plain = ground.beside("plain").await;
    plain.plain_push("1", "p", 0);
    for name in ["idle", "served", "no topic"] {
        let _: u64 = ground.redis(redis::cmd("SADD").arg(&set).arg(name));
    }
    let served = |topic: &TopicName| topic.as_str() == "served";
    let compare = async |repair| {
        let mut findings = Vec::new();
        let topics =
            ground.queue.examine_topics(repair, served, &mut |f| findings.push(f)).await.unwrap();
        (named(&findings), topics.iter().map(TopicName::to_string).collect::<Vec<_>>())
    };
    let members = || ground.redis::<BTreeSet<String>>(redis::cmd("SMEMBERS").arg(&set));
    let wrong =
        [(Kind::BadTopic, "no topic"), (Kind::EmptyTopic, "idle"), (Kind::UnlistedTopic, "plain")];
    let all = ["idle", "order.close", "plain", "served"].map(str::to_owned).to_vec();
    let before = members();
    assert_eq!(compare(false).await, (owned(&wrong), all.clone()));
    assert_eq!(members(), before);
    assert_eq!(compare(true).await, (owned(&wrong), all));
    assert_eq!(members(), ["order.close", "plain", "served"].map(str::to_owned).into());
    assert_eq!(compare(true).await.0, []);

    let _: () = ground.redis(redis::cmd("SET").arg(&set).arg("x"));
    assert_eq!(compare(false).await.0, [(Kind::WrongType, set.clone())]);
    let (found, topics) = compare(true).await;
    assert!(found.contains(&(Kind::WrongType, set)) && found.len() == 3, "{found:?}");
    assert_eq!(topics, ["order.close", "plain"]);
    assert_eq!(compare(true).await.0, []);
}
