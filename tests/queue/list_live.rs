//! The live jobs of a topic that come first, in every stage and in all shards.

use duebox_job::Options;
use duebox_queue::{IfExists, JobState, Limits, NewJob};
use std::num::NonZero;

use crate::fixture::{Fixture, job, job_in, nack};

impl Fixture {
    async fn live(&self, limit: usize) -> Vec<(JobState, String)> {
        let jobs = self.queue.list_live(&self.topic, limit).await.unwrap();
        jobs.into_iter().map(|job| (job.state, job.id.to_string())).collect()
    }
}

fn keyed(name: &str) -> NewJob {
    NewJob { options: Options::default().with_key("user-7").unwrap(), ..job(name) }
}

#[tokio::test]
async fn jobs_are_told_stage_by_stage_with_their_times() {
    let fixture = Fixture::new().await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    assert!(fixture.live(10).await.is_empty());
    fixture.push("tries-again").await;
    let lease = fixture.lease_only("tries-again").await;
    fixture.settle(lease, nack()).await;
    fixture.push_job(keyed("runs"), IfExists::Reject).await;
    fixture.lease_only("runs").await;
    fixture.push_job(keyed("stands-in-line"), IfExists::Reject).await;
    fixture.push("waits").await;
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    fixture.push_job(job_in("soon", 30), IfExists::Reject).await;
    let expected = [
        (JobState::Unack, "runs"),
        (JobState::Ready, "waits"),
        (JobState::Blocked, "stands-in-line"),
        (JobState::Retry, "tries-again"),
        (JobState::Pending, "soon"),
        (JobState::Pending, "later"),
    ];
    let expected = expected.map(|(state, name)| (state, name.to_owned()));
    assert_eq!(fixture.live(10).await, expected);
    assert_eq!(fixture.live(1).await, expected[..5]);
    // Each time is the one that a look at the job alone tells.
    for live in fixture.queue.list_live(&fixture.topic, 10).await.unwrap() {
        let job = fixture.queue.get(&fixture.topic, &live.id).await.unwrap().unwrap();
        let at_ms = match live.state {
            JobState::Unack => job.lease.unwrap().expires_at_ms,
            _ => job.due_at_ms.unwrap(),
        };
        assert_eq!(live.at_ms, at_ms, "{}", live.id);
    }
}

#[tokio::test]
async fn shards_are_one_list() {
    let fixture = Fixture::new().await;
    let rules = Limits { shards: NonZero::new(4), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for seconds in [50, 10, 40, 20, 30] {
        fixture.push_job(job_in(&format!("in-{seconds}"), seconds), IfExists::Reject).await;
    }
    let names: Vec<String> = fixture.live(3).await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["in-10", "in-20", "in-30"]);
}
