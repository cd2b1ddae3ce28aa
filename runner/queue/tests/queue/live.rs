//! The live jobs of a topic that come first, in every stage and in all shards.

use duebox_job::Options;
use duebox_queue::{IfExists, JobState, NewJob, Rules};

use crate::ground::{Ground, job, job_in, nack};

impl Ground {
    async fn live(&self, limit: usize) -> Vec<(JobState, String)> {
        let jobs = self.queue.live_jobs(&self.topic, limit).await.unwrap();
        jobs.into_iter().map(|job| (job.state, job.id.to_string())).collect()
    }
}

fn keyed(name: &str) -> NewJob {
    NewJob { options: Options::default().with_key("user-7").unwrap(), ..job(name) }
}

#[tokio::test]
async fn jobs_are_told_stage_by_stage_with_their_times() {
    let ground = Ground::new().await;
    let rules = Rules { per_key: 1, ..Rules::default() };
    ground.queue.configure(&ground.topic, &rules).await.unwrap();
    assert!(ground.live(10).await.is_empty());
    ground.push("tries-again").await;
    let lease = ground.lease_only("tries-again").await;
    ground.settle(lease, nack()).await;
    ground.push_job(keyed("runs"), IfExists::Reject).await;
    ground.lease_only("runs").await;
    ground.push_job(keyed("stands-in-line"), IfExists::Reject).await;
    ground.push("waits").await;
    ground.push_job(job_in("later", 60), IfExists::Reject).await;
    ground.push_job(job_in("soon", 30), IfExists::Reject).await;
    let expected = [
        (JobState::Unack, "runs"),
        (JobState::Ready, "waits"),
        (JobState::Blocked, "stands-in-line"),
        (JobState::Retry, "tries-again"),
        (JobState::Pending, "soon"),
        (JobState::Pending, "later"),
    ];
    let expected = expected.map(|(state, name)| (state, name.to_owned()));
    assert_eq!(ground.live(10).await, expected);
    assert_eq!(ground.live(1).await, expected[..5]);
    // Each time is the one that a look at the job alone tells.
    for live in ground.queue.live_jobs(&ground.topic, 10).await.unwrap() {
        let job = ground.queue.get(&ground.topic, &live.id).await.unwrap().unwrap();
        let at_ms = match live.state {
            JobState::Unack => job.lease.unwrap().expires_at_ms,
            _ => job.due_at_ms.unwrap(),
        };
        assert_eq!(live.at_ms, at_ms, "{}", live.id);
    }
}

#[tokio::test]
async fn shards_are_one_list() {
    let ground = Ground::new().await;
    let rules = Rules { shards: 4, ..Rules::default() };
    ground.queue.configure(&ground.topic, &rules).await.unwrap();
    for seconds in [50, 10, 40, 20, 30] {
        ground.push_job(job_in(&format!("in-{seconds}"), seconds), IfExists::Reject).await;
    }
    let names: Vec<String> = ground.live(3).await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["in-10", "in-20", "in-30"]);
}
