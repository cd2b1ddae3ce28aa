//! Get: one job by its id, in every state it can be in.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options, Priority};
use duebox_queue::{
    Finish, IfExists, Job, JobState, Limits, NewJob, RetentionLimits, Settled, Verdict,
};

use crate::fixture::{BACKOFF, Fixture, HOLDER, LEASE, drop_it, id, job, job_in, nack};

impl Fixture {
    async fn get(&self, name: &str) -> Job {
        self.try_get(name).await.unwrap()
    }

    async fn try_get(&self, name: &str) -> Option<Job> {
        self.queue.get(&self.topic, &id(name)).await.unwrap()
    }
}

fn finish(unique_for: Duration) -> Verdict {
    Verdict::Finish(Finish {
        unique_for,
        info: Some(r#"{"attempt":1,"wall_ms":1.5}"#.to_owned()),
        result: Some(Bytes::from_static(b"closed")),
        follow_ups: Vec::new(),
    })
}

#[tokio::test]
async fn a_job_is_found_in_every_stage() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.try_get("a").await, None);

    fixture.push_job(job_in("a", 60), IfExists::Reject).await;
    let pending = fixture.get("a").await;
    assert_eq!((pending.state, pending.payload.as_deref()), (JobState::Pending, Some(&b"a"[..])));
    let wait = pending.due_at_ms.unwrap() - pending.now_ms;
    assert!((59_000..=60_000).contains(&wait), "{wait}");

    fixture.advance(Duration::from_secs(61), &mut []);
    fixture.promote().await;
    let ready = fixture.get("a").await;
    assert_eq!((ready.state, ready.failures), (JobState::Ready, 0));
    assert!(ready.due_at_ms.unwrap() < ready.now_ms);

    let lease = fixture.lease_only("a").await;
    let leased = fixture.get("a").await;
    let held = leased.lease.unwrap();
    assert_eq!((leased.state, held.holder.as_deref()), (JobState::Unack, Some(HOLDER)));
    assert_eq!(held.token, lease.token.expires_at_us().to_string());
    let left = held.expires_at_ms - leased.now_ms;
    assert!(left <= LEASE.as_millis() as u64 && !held.cancelled, "{left}");

    fixture.settle(lease, nack()).await;
    let retry = fixture.get("a").await;
    assert_eq!((retry.state, retry.failures, retry.crashes), (JobState::Retry, 1, 0));
    assert_eq!(retry.last_error.unwrap()["reason"], "not yet");
    assert!(retry.due_at_ms.unwrap() > retry.now_ms && retry.lease.is_none());

    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
    let dead = fixture.get("a").await;
    assert_eq!((dead.state, dead.payload.as_deref()), (JobState::Dead, Some(&b"a"[..])));
    assert_eq!(dead.dead.unwrap().info["class"], "drop");
    assert!(dead.last_error.is_none() && dead.due_at_ms.is_none());
}

#[tokio::test]
async fn who_extends_a_lease_is_still_its_holder() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.extend(&lease, Duration::from_secs(30)).await.unwrap();
    let held = fixture.get("a").await.lease.unwrap();
    assert_eq!(held.holder.as_deref(), Some(HOLDER));
    assert_eq!(held.expires_at_ms, lease.token.expires_at_us() / 1_000 + 30_000);
}

#[tokio::test]
async fn a_done_job_is_kept_with_its_result_and_its_id_is_held() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, finish(Duration::from_secs(600))).await, Settled::Done);
    let job = fixture.get("a").await;
    assert_eq!((job.state, job.payload.as_deref()), (JobState::Done, Some(&b"a"[..])));
    let held_for = job.held_until_ms.unwrap() - job.now_ms;
    assert!((590_000..=600_000).contains(&held_for), "{held_for}");
    let done = job.done.unwrap();
    assert_eq!((done.result.as_deref(), &done.info["attempt"]), (Some(&b"closed"[..]), &1.into()));

    let day = Duration::from_secs(86_400);
    let keep = RetentionLimits { dead_for: day, dead_most: 9, done_for: day, done_most: 0 };
    assert_eq!(fixture.queue.prune_ended(&fixture.shard, &keep).await.unwrap().done, 1);
    let held = fixture.get("a").await;
    assert_eq!((held.state, held.payload), (JobState::Held, None));
    fixture.advance(Duration::from_secs(601), &mut []);
    assert_eq!(fixture.try_get("a").await, None, "a hold that is over is none");
}

#[tokio::test]
async fn the_live_one_is_shown_beside_the_dead_and_the_done() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    fixture.advance(Duration::from_secs(1), &mut []);
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, finish(Duration::ZERO)).await;
    let ended = fixture.get("a").await;
    assert_eq!(ended.state, JobState::Done, "what ended last is the state");
    assert!(ended.dead.is_some() && ended.held_until_ms.is_none());

    let payload = Bytes::from_static(b"newer");
    fixture.push_job(NewJob { payload, ..job_in("a", 60) }, IfExists::Reject).await;
    let live = fixture.get("a").await;
    assert_eq!((live.state, live.payload.as_deref()), (JobState::Pending, Some(&b"newer"[..])));
    assert!(live.dead.is_some() && live.done.is_some());
}

#[tokio::test]
async fn a_leased_job_shows_its_successor_and_its_cancellation() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.lease_only("a").await;
    fixture.push_job(job_in("a", 60), IfExists::Replace).await;
    let followed = fixture.get("a").await;
    assert_eq!(followed.state, JobState::Unack);
    assert!(followed.successor_due_at_ms.unwrap() > followed.now_ms);
    fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap();
    let cancelled = fixture.get("a").await;
    assert_eq!((cancelled.successor_due_at_ms, cancelled.payload), (None, None));
    assert!(cancelled.lease.unwrap().cancelled);
}

#[tokio::test]
async fn options_say_what_they_are_and_priorities_hide_no_due_time() {
    let fixture = Fixture::new().await;
    for (name, priority) in [("high", Priority::High), ("low", Priority::Low)] {
        let options = Options::default().with_priority(priority).with_max_attempts(2);
        fixture.push_job(NewJob { options, ..job(name) }, IfExists::Reject).await;
        let job = fixture.get(name).await;
        assert_eq!(job.options.as_ref().unwrap().priority(), priority);
        assert!(job.now_ms - job.due_at_ms.unwrap() < 60_000, "{job:?}");
    }
    fixture.plain_push("odd", "payload", 0);
    fixture.on_key("HSET", "opts", &["odd", "{\"speed\":1}"]);
    let odd = fixture.get("odd").await;
    assert!(odd.options.unwrap_err().to_string().contains("speed"));
}

#[tokio::test]
async fn jobs_of_a_key_show_their_turn_and_their_line() {
    let fixture = Fixture::new().await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    let options = Options::default().with_key("user 7").unwrap();
    for name in ["first", "second"] {
        let job = NewJob { options: options.clone(), ..job(name) };
        fixture.push_job(job, IfExists::Reject).await;
    }
    let (first, second) = (fixture.get("first").await, fixture.get("second").await);
    assert_eq!((first.state, second.state), (JobState::Ready, JobState::Blocked));
    assert!(second.now_ms - second.due_at_ms.unwrap() < 60_000);
    let due = second.due_at_ms;

    fixture.advance(Duration::from_secs(5), &mut []);
    let lease = fixture.lease_only("first").await;
    assert!(fixture.get("first").await.due_at_ms.is_some(), "a turn knows the due time");
    fixture.settle(lease, Verdict::Ack).await;
    let second = fixture.get("second").await;
    assert_eq!((second.state, second.options.unwrap().key()), (JobState::Ready, Some("user 7")));
    assert_eq!(second.due_at_ms, due.map(|due| due - 5_000), "not when it was let through");
}

#[tokio::test]
async fn an_id_of_any_bytes_is_found() {
    let fixture = Fixture::new().await;
    let odd = b"\xff\x00:{a}";
    fixture.plain_push_bytes(odd, b"\x80", "0");
    let job = fixture.queue.get(&fixture.topic, &JobId::from_redis(odd.to_vec())).await.unwrap();
    let job = job.unwrap();
    let json = serde_json::to_value(&job).unwrap();
    assert_eq!((&json["state"], &json["payload_base64"]), (&"pending".into(), &"gA==".into()));
    assert!(json.get("payload").is_none() && json.get("lease").is_none(), "{json}");
}

#[tokio::test]
async fn looking_changes_nothing() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.lease_only("a").await;
    fixture.push_job(job_in("b", 60), IfExists::Reject).await;
    let before = fixture.snapshot().state();
    for name in ["a", "b", "nobody"] {
        fixture.try_get(name).await;
    }
    assert_eq!(fixture.snapshot().state(), before);
}
