//! Pause and resume, and what the counts of a topic say of it.

use std::time::Duration;

use duebox_job::{Options, Priority};
use duebox_queue::{Depths, Finish, IfExists, Leased, NewJob, Rules, Verdict, Wake};

use crate::ground::{Ground, call, drop_it, job, job_in, nack};

impl Ground {
    async fn depths(&self) -> Depths {
        self.queue.depths(std::slice::from_ref(&self.topic)).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn a_paused_topic_leases_nothing_until_it_is_resumed() {
    let ground = Ground::new().await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    ground.push("before").await;
    assert!(queue.pause(topic).await.unwrap());
    assert!(!queue.pause(topic).await.unwrap(), "it was paused");
    ground.push("after").await;
    assert!(matches!(ground.lease(&call(10)).await, Leased::Paused));
    assert!(ground.depths().await.paused);

    let mut listener = queue.listen().await.unwrap();
    assert!(queue.resume(topic).await.unwrap());
    assert_eq!(listener.next().await, Wake::Topic(topic.clone()), "sleepers are woken");
    assert!(!queue.resume(topic).await.unwrap(), "it was not paused");
    assert_eq!(ground.lease_up_to(10).await.len(), 2);
    assert!(!ground.depths().await.paused);
}

#[tokio::test]
async fn a_pause_survives_the_last_job() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.queue.pause(&ground.topic).await.unwrap();
    ground.settle(lease, Verdict::Ack).await;
    ground.push("b").await;
    assert!(matches!(ground.lease(&call(10)).await, Leased::Paused));
    assert!(ground.queue.topics().await.unwrap().contains(&ground.topic));
}

#[tokio::test]
async fn every_place_of_a_topic_is_counted() {
    let ground = Ground::new().await;
    let rules = Rules { per_key: 1, ..Rules::default() };
    ground.queue.configure(&ground.topic, &rules).await.unwrap();
    for (name, verdict) in [("retry", nack()), ("dead", drop_it()), ("done", finish())] {
        ground.push(name).await;
        let lease = ground.lease_only(name).await;
        ground.settle(lease, verdict).await;
    }
    ground.push("unack").await;
    ground.lease_only("unack").await;
    let options = Options::default().with_key("k").unwrap();
    for name in ["ready", "blocked"] {
        let job = NewJob { options: options.clone(), ..job(name) };
        ground.push_job(job, IfExists::Reject).await;
    }
    ground.push_job(job_in("pending", 60), IfExists::Reject).await;
    let depths = ground.depths().await;
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
        let ground = Ground::new().await;
        let options = Options::default().with_priority(oldest);
        ground.push_job(NewJob { options, ..job("oldest") }, IfExists::Reject).await;
        ground.advance(Duration::from_secs(30), &mut []);
        for priority in Priority::ALL {
            let options = Options::default().with_priority(priority);
            let job = NewJob { options, ..job(priority.name()) };
            ground.push_job(job, IfExists::Reject).await;
        }
        let depths = ground.depths().await;
        let late = depths.now_ms - depths.oldest_ready_ms.unwrap();
        assert!((30_000..60_000).contains(&late), "{oldest:?}: {late}");
        assert_eq!(depths.next_due_ms, None);
    }
}
