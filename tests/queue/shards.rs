//! A topic that is split over hash slots of Redis looks like one topic.

use duebox_job::Shard;
use duebox_queue::{DeadQuery, JobState, Limits, Notification, PageOrder, PageQuery, Requeued};
use std::num::NonZero;

use crate::fixture::{Fixture, id};

const SHARDS: u32 = 3;

impl Fixture {
    async fn with_shards() -> Self {
        let fixture = Self::new().await;
        let rules = Limits { shards: NonZero::new(SHARDS), ..Limits::default() };
        fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
        fixture
    }

    /// Runs a command on one key of a shard.
    fn on_shard(&self, shard: usize, command: &str, name: &str, args: &[&str]) -> redis::Value {
        let tag = self.topic.shard(shard as u32);
        let key = self.key(name).replace(self.topic.as_str(), tag.tag());
        self.redis(redis::cmd(command).arg(key).arg(args))
    }

    /// A dead job in a shard.
    fn bury_in(&self, shard: usize, name: &str, died: u64, class: &str) {
        let info = format!(r#"{{"class":"{class}"}}"#);
        self.on_shard(shard, "ZADD", "dead", &[&died.to_string(), name]);
        self.on_shard(shard, "HSET", "dead:jobs", &[name, "payload"]);
        self.on_shard(shard, "HSET", "dead:info", &[name, &info]);
    }

    /// A job that was pushed to a shard by plain commands.
    fn push_to(&self, shard: usize, name: &str, due: &str) {
        self.on_shard(shard, "HSET", "jobs", &[name, name]);
        self.on_shard(shard, "ZADD", "pending", &[due, name]);
    }

    async fn state(&self, name: &str) -> Option<JobState> {
        self.queue.get(&self.topic, &id(name)).await.unwrap().map(|job| job.state)
    }
}

#[tokio::test]
async fn a_job_is_found_in_whichever_shard_it_is() {
    let fixture = Fixture::with_shards().await;
    for (shard, name) in ["a", "b", "c"].into_iter().enumerate() {
        fixture.push_to(shard, name, "1893456000000");
        assert_eq!(fixture.state(name).await, Some(JobState::Pending), "{name}");
    }
    assert_eq!(fixture.state("nobody").await, None);
    // A dead one elsewhere does not hide the live one, nor the other way round.
    fixture.bury_in(0, "c", 1_700_000_000_000, "trap");
    let both = fixture.queue.get(&fixture.topic, &id("c")).await.unwrap().unwrap();
    assert_eq!((both.state, both.dead.unwrap().died_at_ms), (JobState::Pending, 1_700_000_000_000));
    fixture.bury_in(0, "d", 1_700_000_000_000, "trap");
    fixture.bury_in(2, "d", 1_700_000_000_001, "nack");
    let last = fixture.queue.get(&fixture.topic, &id("d")).await.unwrap().unwrap();
    assert_eq!(last.dead.unwrap().info["class"], "nack");
}

#[tokio::test]
async fn counts_add_up_and_the_soonest_is_found() {
    let fixture = Fixture::with_shards().await;
    for (shard, (name, due)) in
        [("a", "1893456000002"), ("b", "1893456000001"), ("c", "1893456000003")].iter().enumerate()
    {
        fixture.push_to(shard, name, due);
        fixture.bury_in(shard, name, 1_700_000_000_000, "trap");
    }
    let depths =
        fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await.unwrap().remove(0);
    assert_eq!((depths.pending, depths.dead), (3, 3));
    assert_eq!(depths.next_due_ms, Some(1_893_456_000_001));
}

#[tokio::test]
async fn a_pause_holds_in_every_shard_and_its_end_wakes_each() {
    let fixture = Fixture::with_shards().await;
    assert!(!fixture.queue.is_paused(&fixture.topic).await.unwrap());
    assert!(fixture.queue.pause(&fixture.topic).await.unwrap());
    assert!(fixture.queue.is_paused(&fixture.topic).await.unwrap());
    for shard in 0..SHARDS as usize {
        let paused = fixture.on_shard(shard, "HGET", "meta", &["paused"]);
        assert_eq!(paused, redis::Value::BulkString(b"1".to_vec()), "{shard}");
    }
    let mut listener = fixture.queue.listen().await.unwrap();
    assert!(fixture.queue.resume(&fixture.topic).await.unwrap());
    let mut woken: Vec<Shard> = Vec::new();
    for _ in 0..SHARDS {
        match listener.next().await {
            Notification::WakeUp(shard) => woken.push(shard),
            other => panic!("{other:?}"),
        }
    }
    woken.sort();
    assert_eq!(woken, (0..SHARDS).map(|shard| fixture.topic.shard(shard)).collect::<Vec<_>>());
    assert!(!fixture.queue.resume(&fixture.topic).await.unwrap());
}

#[tokio::test]
async fn pages_of_all_shards_are_one_list() {
    let fixture = Fixture::with_shards().await;
    let mut expected = Vec::new();
    for n in 0..100_u64 {
        // Unevenly spread, with ties, a third of them of another class.
        let shard = if n < 60 { 0 } else { (n % 3) as usize };
        let (name, died) = (format!("job-{n:03}"), 1_700_000_000_000 + (n * 7) % 40);
        let class = if n % 3 == 0 { "nack" } else { "trap" };
        fixture.bury_in(shard, &name, died, class);
        expected.push((died, name, class));
    }
    expected.sort();
    for order in [PageOrder::Oldest, PageOrder::Newest] {
        for class in [None, Some(duebox_job::FailureClass::Nack)] {
            for limit in [1, 7, 1_000] {
                let page = PageQuery { order, limit, ..PageQuery::default() };
                let mut query = DeadQuery { class, page };
                let mut met = Vec::new();
                loop {
                    let page = fixture.queue.list_dead(&fixture.topic, &query).await.unwrap();
                    assert!(page.jobs.len() <= limit);
                    met.extend(page.jobs.iter().map(|job| job.id.to_string()));
                    match page.next {
                        Some(next) => query.page.after = Some(next),
                        None => break,
                    }
                }
                let wanted = expected.iter().filter(|(_, _, of)| class.is_none() || *of == "nack");
                let mut wanted: Vec<String> = wanted.map(|(_, name, _)| name.clone()).collect();
                if order == PageOrder::Newest {
                    wanted.reverse();
                }
                assert_eq!(met, wanted, "{order:?} {class:?} {limit}");
            }
        }
    }
}

#[tokio::test]
async fn dead_jobs_of_all_shards_are_requeued_and_purged() {
    let fixture = Fixture::with_shards().await;
    for (shard, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        fixture.bury_in(shard % 3, name, 1_700_000_000_000, "trap");
    }
    fixture.push_to(1, "b", "1893456000000");
    let ids = ["b", "c", "nobody"].map(id);
    let words = fixture.queue.requeue(&fixture.topic, &ids).await.unwrap();
    assert_eq!(words, [Requeued::Exists, Requeued::Ok, Requeued::None]);
    assert_eq!(fixture.state("c").await, Some(JobState::Ready));
    assert_eq!(fixture.queue.prune(&fixture.topic, &ids).await.unwrap(), 1);
    let rest = DeadQuery::default();
    let many = fixture.queue.requeue_matching(&fixture.topic, &rest).await.unwrap();
    assert_eq!((many.requeued, many.exists), (3, 0));
    assert_eq!(fixture.queue.purge_matching(&fixture.topic, &rest).await.unwrap(), 0);
}

#[tokio::test]
async fn each_shard_gets_its_part_of_the_limits() {
    let fixture = Fixture::new().await;
    let limits = Limits {
        shards: NonZero::new(SHARDS),
        max_pending: NonZero::new(10),
        max_running: NonZero::new(2),
        per_key: NonZero::new(1),
        ..Limits::default()
    };
    let topic = fixture.queue.topic(fixture.topic.as_str()).unwrap();
    assert!(topic.set_limits(&limits).await.unwrap());
    assert!(!topic.set_limits(&limits).await.unwrap(), "the same again");
    let fields = ["max_pending", "max_running", "per_key"];
    for shard in 0..SHARDS as usize {
        let found = fixture.on_shard(shard, "HMGET", "meta", &fields);
        let part = 10_u32.div_ceil(SHARDS).to_string();
        let wanted = [part.as_str(), "1", "1"].map(|text| text.as_bytes().to_vec());
        let wanted = wanted.map(redis::Value::BulkString);
        assert_eq!(found, redis::Value::Array(wanted.into()), "{shard}");
    }
}
