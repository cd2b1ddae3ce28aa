//! Pause and resume, and what the counts of a topic say of it.

use std::num::NonZero;
use std::time::Duration;

use duebox_job::{Options, Priority};
use duebox_queue::{Depths, Finish, IfExists, Leased, Limits, NewJob, Notification, Verdict};

use crate::fixture::{Fixture, call, drop_it, job, job_in, nack};

impl Fixture {
    async fn depths(&self) -> Depths {
        self.queue.depths(std::slice::from_ref(&self.topic)).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn a_paused_topic_leases_nothing_until_it_is_resumed() {
    let fixture = Fixture::new().await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    fixture.push("before").await;
    assert!(queue.pause(topic).await.unwrap());
    assert!(!queue.pause(topic).await.unwrap(), "it was paused");
    fixture.push("after").await;
    assert!(matches!(fixture.lease(&call(10)).await, Leased::Paused));
    assert!(fixture.depths().await.paused);

    let mut listener = queue.listen().await.unwrap();
    assert!(queue.resume(topic).await.unwrap());
    assert_eq!(
        listener.next().await,
        Notification::WakeUp(fixture.shard.clone()),
        "sleepers are woken"
    );
    assert!(!queue.resume(topic).await.unwrap(), "it was not paused");
    assert_eq!(fixture.lease_up_to(10).await.len(), 2);
    assert!(!fixture.depths().await.paused);
}

#[tokio::test]
async fn a_pause_survives_the_last_job() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.queue.pause(&fixture.topic).await.unwrap();
    fixture.settle(lease, Verdict::Ack).await;
    fixture.push("b").await;
    assert!(matches!(fixture.lease(&call(10)).await, Leased::Paused));
    assert!(fixture.queue.topics().await.unwrap().contains(&fixture.topic));
}

#[tokio::test]
async fn every_place_of_a_topic_is_counted() {
    let fixture = Fixture::new().await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for (name, verdict) in [("retry", nack()), ("dead", drop_it()), ("done", finish())] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        fixture.settle(lease, verdict).await;
    }
    fixture.push("unack").await;
    fixture.lease_only("unack").await;
    let options = Options::default().with_key("k").unwrap();
    for name in ["ready", "blocked"] {
        let job = NewJob { options: options.clone(), ..job(name) };
        fixture.push_job(job, IfExists::Reject).await;
    }
    fixture.push_job(job_in("pending", 60), IfExists::Reject).await;
    let depths = fixture.depths().await;
    let Depths { pending, ready, blocked, unack, retry, dead, done, held, .. } = depths;
    assert_eq!([pending, ready, blocked, unack, retry, dead, done, held], [1; 8]);
    assert_eq!((depths.outbox, depths.paused), (0, false));
}

fn finish() -> Verdict {
    Verdict::Finish(Finish {
        unique_for: Duration::from_secs(60),
        info: Some("{}".to_owned()),
        result: None,
        follow_ups: Vec::new(),
    })
}

#[tokio::test]
async fn the_oldest_ready_job_is_found_whatever_its_priority() {
    for oldest in [Priority::High, Priority::Normal, Priority::Low] {
        let fixture = Fixture::new().await;
        let options = Options::default().with_priority(oldest);
        fixture.push_job(NewJob { options, ..job("oldest") }, IfExists::Reject).await;
        fixture.advance(Duration::from_secs(30), &mut []);
        for priority in Priority::ALL {
            let options = Options::default().with_priority(priority);
            let job = NewJob { options, ..job(priority.name()) };
            fixture.push_job(job, IfExists::Reject).await;
        }
        let depths = fixture.depths().await;
        let late = depths.now_ms - depths.oldest_ready_ms.unwrap();
        assert!((30_000..60_000).contains(&late), "{oldest:?}: {late}");
        assert_eq!(depths.next_due_ms, None);
    }
}
