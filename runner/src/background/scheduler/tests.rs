//! Tests of the scheduler: when it pushes ticks, and what one sick topic does to the others.

use bytes::Bytes;

use super::*;
use crate::schedule::When;

const NOW: u64 = 1_763_740_805_000;

fn minutely() -> Schedule {
    Schedule {
        name: "minutely".to_owned(),
        topic: TopicName::new("report").unwrap(),
        when: When::every(Duration::from_secs(60)).unwrap(),
        payload: Bytes::new(),
        missed: Missed::All,
        window: Duration::from_secs(600),
    }
}

fn step(until: Option<u64>, line: &str) -> Option<Step> {
    let progress = Progress { until, line: line.to_owned(), ..Progress::default() };
    next_step(&minutely(), "every 1m", &progress, NOW)
}

fn scheduler(queue: Queue) -> Scheduler {
    Scheduler {
        queue,
        push_counters: Arc::default(),
        sick_topics: Arc::default(),
        outage: Arc::default(),
        progress: BTreeMap::new(),
        clock: RedisClock::default(),
        retry: RETRY_FIRST,
        record_at: monotonic::now(),
    }
}

#[tokio::test]
async fn it_wakes_up_before_redis_is_past_the_tick() {
    let server = duebox_harness::RedisServer::start();
    let settings = duebox_queue::ConnectionSettings::new(server.url());
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    let mut scheduler = scheduler(queue.clone());
    let schedules: Schedules = [minutely()].into();
    let mut checked = 0;
    for _ in 0..10 {
        let wakes_at = scheduler.push_due(&schedules).await.unwrap();
        let now_us = queue.now_us().await.unwrap();
        let Some(wait) = wakes_at.checked_duration_since(monotonic::now()) else { continue };
        let tick_ms = scheduler.progress[&key(&schedules[0])].next.unwrap();
        assert!(now_us + wait.as_micros() as u64 <= tick_ms * 1_000);
        checked += 1;
    }
    assert!(checked > 0, "no wait was left to check");
}

#[tokio::test]
async fn a_schedule_whose_topic_is_sick_is_counted_and_stops_no_other() {
    let server = duebox_harness::RedisServer::start();
    server.cli(&["SET", "duebox:{sick}:ticks", "a text"]);
    let settings = duebox_queue::ConnectionSettings::new(server.url());
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    let mut scheduler = scheduler(queue);
    let (outage, sick_topics) = (scheduler.outage.clone(), scheduler.sick_topics.clone());
    let sick = TopicName::new("sick").unwrap();
    let schedules = [Schedule { topic: sick.clone(), ..minutely() }, minutely()].into();
    assert!(scheduler.push_due(&schedules).await.is_some());
    assert_eq!((sick_topics.count(), sick_topics.errors()), (1, vec![(sick, 1)]));
    assert_eq!(server.cli(&["HEXISTS", "duebox:{report}:ticks", "minutely"]), "1");
    assert!(!outage.is_ongoing());
    server.cli(&["DEL", "duebox:{sick}:ticks"]);
    scheduler.push_due(&schedules).await;
    assert_eq!(sick_topics.count(), 0);
}

#[test]
fn a_new_schedule_starts_without_a_job() {
    assert_eq!(step(None, ""), Some(Step::Start));
}

#[test]
fn nothing_is_due_between_two_ticks() {
    assert_eq!(step(Some(NOW - 1_000), "every 1m"), None);
    assert_eq!(step(Some(NOW + 20), "every 1m"), None);
    assert_eq!(step(Some(NOW + 20), "every 1h"), None);
}

#[test]
fn a_tick_is_pushed_even_if_the_line_changed() {
    let due = CatchUp { ticks: vec![1_763_740_800_000], ..CatchUp::default() };
    assert_eq!(step(Some(NOW - 50_000), "every 1m"), Some(Step::Tick(due.clone())));
    assert_eq!(step(Some(NOW - 50_000), "every 1h"), Some(Step::Tick(due)));
}

#[test]
fn a_changed_line_skips_missed_ticks() {
    let made_up = CatchUp {
        ticks: vec![1_763_740_680_000, 1_763_740_740_000, 1_763_740_800_000],
        late: 2,
        skipped: 0,
    };
    assert_eq!(step(Some(NOW - 170_000), "every 1m"), Some(Step::Tick(made_up)));
    let skipped = CatchUp { ticks: vec![1_763_740_800_000], late: 0, skipped: 2 };
    assert_eq!(step(Some(NOW - 170_000), "every 1h"), Some(Step::Tick(skipped)));
    let noted = CatchUp::default();
    assert_eq!(step(Some(NOW - 1_000), "every 1h"), Some(Step::Tick(noted)));
}

#[test]
fn a_clock_set_back_does_not_stop_a_schedule() {
    assert_eq!(step(Some(NOW + AHEAD_MAX_MS), "every 1m"), None);
    assert_eq!(step(Some(NOW + AHEAD_MAX_MS + 1), "every 1m"), Some(Step::Restart));
    let ahead = NOW + AHEAD_MAX_MS + 1;
    let progress =
        Progress { until: Some(ahead), next: Some(ahead + 60_000), ..Progress::default() };
    assert_eq!(progress.time_until_next(NOW), None);
    assert_eq!(progress.time_until_next(ahead), Some(Duration::from_secs(60)));
    assert_eq!(progress.time_until_next(ahead + 60_000), None);
}
