//! Ticks of schedules: each becomes one job, however many runners push it.

use std::num::NonZero;
use std::time::Duration;

use duebox_queue::{
    BATCH_MAX, Finish, IfExists, Limits, Pushed, QueueError, ScheduleState, Tick, Ticked, Verdict,
};
use redis::Value;

use crate::fixture::{Fixture, job};

const LINE: &str = "every 1s";

/// A second before now, whole, by Redis' clock.
async fn second_before(fixture: &Fixture, seconds: u64) -> u64 {
    let now = fixture.queue.now_ms().await.unwrap();
    now / 1_000 * 1_000 - seconds * 1_000
}

fn tick(expected: Option<u64>, until: u64, times: &[u64]) -> Tick<'_> {
    Tick { schedule: "beat", line: LINE, expected, until, payload: b"{}", times }
}

async fn push(fixture: &Fixture, tick: &Tick<'_>) -> Ticked {
    fixture.queue.tick(&fixture.topic, tick).await.unwrap()
}

async fn state(fixture: &Fixture) -> ScheduleState {
    let names = [(fixture.topic.clone(), "beat".to_owned())];
    let (mut states, _) = fixture.queue.schedule_states(&names).await.unwrap();
    states.remove(0)
}

fn all_pushed(pushed: usize) -> Ticked {
    Ticked::Done(vec![Pushed::Pushed; pushed])
}

fn taken(until: u64) -> Ticked {
    Ticked::Taken { until: Some(until), line: LINE.to_owned() }
}

#[tokio::test]
async fn a_tick_becomes_a_ready_job_that_was_due_at_it() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    assert_eq!(push(&fixture, &tick(None, at, &[])).await, all_pushed(0));
    assert_eq!(
        state(&fixture).await,
        ScheduleState { until: Some(at), last_run: None, ..ScheduleState::default() }
    );
    let (first, second) = (at + 1_000, at + 2_000);
    let done = push(&fixture, &tick(Some(at), second + 7, &[first, second])).await;
    assert_eq!(done, all_pushed(2));
    let until = Some(second + 7);
    assert_eq!(
        state(&fixture).await,
        ScheduleState { until, last_run: Some(second), ..ScheduleState::default() }
    );
    let leases = fixture.lease_up_to(10).await;
    let leased: Vec<_> = leases.iter().map(|l| (l.id.to_string(), l.due_at_ms)).collect();
    assert_eq!(leased, [(format!("beat@{first}"), first), (format!("beat@{second}"), second)]);
    assert_eq!(&leases[0].payload[..], b"{}");
    assert_eq!(fixture.queue.topics().await.unwrap(), std::slice::from_ref(&fixture.topic));
}

/// asynq#653, #395, #1013: with several schedulers, each tick was pushed by each of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cron_is_not_doubled_by_replicas() {
    let fixture = Fixture::new().await;
    let begin = second_before(&fixture, 60).await;
    push(&fixture, &tick(None, begin, &[])).await;
    for second in 0..20 {
        let (from, to) = (begin + second * 1_000, begin + (second + 1) * 1_000);
        let times = [to];
        let wanted = tick(Some(from), to, &times);
        let replicas = (0..8).map(|_| fixture.queue.tick(&fixture.topic, &wanted));
        let answers = futures_util::future::join_all(replicas).await;
        let done = |answer: &&Result<Ticked, QueueError>| matches!(answer, Ok(Ticked::Done(_)));
        assert_eq!(answers.iter().filter(done).count(), 1);
        assert!(
            answers
                .iter()
                .flatten()
                .all(|answer| { *answer == all_pushed(1) || *answer == taken(to) })
        );
    }
    assert_eq!(fixture.lease_up_to(1_000).await.len(), 20);
}

#[tokio::test]
async fn whoever_knows_something_else_changes_nothing() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    let nothing = Ticked::Taken { until: None, line: String::new() };
    assert_eq!(push(&fixture, &tick(Some(at), at + 1_000, &[at + 1_000])).await, nothing);
    assert_eq!(fixture.keys(), Vec::<String>::new());
    push(&fixture, &tick(None, at, &[])).await;
    let before = fixture.snapshot().state();
    for expected in [None, Some(at - 1), Some(at + 1)] {
        let answer = push(&fixture, &tick(expected, at + 2_000, &[at + 2_000])).await;
        assert_eq!(answer, taken(at));
    }
    assert!(fixture.snapshot().state() == before);
    assert_eq!(state(&fixture).await.until, Some(at));
    // The same call again, as after a lost reply.
    let wanted = [at + 1_000];
    let again = tick(Some(at), at + 1_000, &wanted);
    assert_eq!(push(&fixture, &again).await, all_pushed(1));
    assert_eq!(push(&fixture, &again).await, taken(at + 1_000));
}

#[tokio::test]
async fn a_runner_whose_clock_is_ahead_fires_nothing_early() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    push(&fixture, &tick(None, at, &[])).await;
    let ahead = at + 3_600_000;
    let Ticked::Early(wait) = push(&fixture, &tick(Some(at), ahead, &[at + 1_000, ahead])).await
    else {
        panic!("it fired");
    };
    let hour = Duration::from_secs(3_600);
    assert!(wait > hour - Duration::from_secs(60) && wait < hour, "{wait:?}");
    assert_eq!(state(&fixture).await.until, Some(at));
    assert!(fixture.lease_up_to(10).await.is_empty());
}

#[tokio::test]
async fn an_id_that_is_live_in_any_stage_or_held_is_left_alone() {
    let fixture = Fixture::new().await;
    let begin = second_before(&fixture, 20).await;
    push(&fixture, &tick(None, begin, &[])).await;
    let times: Vec<u64> = (1..=7).map(|second| begin + second * 1_000).collect();
    let name = |index: usize| format!("beat@{}", times[index]);
    // Leased, held, in retry; then ready, pending and in its key's line.
    for index in 0..3 {
        fixture.push_job(job(&name(index)), IfExists::Reject).await;
    }
    let mut leases = fixture.lease_up_to(3).await.into_iter();
    let (_leased, held, retried) =
        (leases.next().unwrap(), leases.next().unwrap(), leases.next().unwrap());
    let finish = Finish { unique_for: Duration::from_secs(60), ..Finish::default() };
    fixture.settle(held, Verdict::Finish(finish)).await;
    fixture.settle(retried, crate::fixture::nack()).await;
    fixture.push_job(job(&name(3)), IfExists::Reject).await;
    fixture.push_job(crate::fixture::job_in(&name(4), 60), IfExists::Reject).await;
    fixture.on_key("HSET", "blocked:at", &[&name(5), "a member of blocked"]);
    let answer = push(&fixture, &tick(Some(begin), times[6], &times)).await;
    let mut words = vec![Pushed::Kept; 6];
    words[1] = Pushed::Held;
    words.push(Pushed::Pushed);
    assert_eq!(answer, Ticked::Done(words));
    let Value::BulkString(payload) = fixture.on_key("HGET", "jobs", &[&name(4)]) else { panic!() };
    assert_eq!(payload, name(4).as_bytes());
    assert_eq!(state(&fixture).await.last_run, Some(times[6]));
}

#[tokio::test]
async fn a_thousand_ticks_are_one_transition_and_one_more_is_refused() {
    let fixture = Fixture::new().await;
    let begin = second_before(&fixture, 2_000).await;
    let times: Vec<u64> = (1..=1_001).map(|second| begin + second * 1_000).collect();
    let error = fixture.queue.tick(&fixture.topic, &tick(None, times[1_000], &times)).await;
    assert!(matches!(error, Err(QueueError::BadCall(_))), "{error:?}");
    assert_eq!(fixture.keys(), Vec::<String>::new());
    let most = &times[..BATCH_MAX];
    let answer = push(&fixture, &tick(None, times[999], most)).await;
    assert_eq!(answer, all_pushed(BATCH_MAX));
    assert_eq!(fixture.lease_up_to(1_000).await.len(), BATCH_MAX);
}

#[tokio::test]
async fn what_is_no_tick_is_refused_whole() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    let seconds = at / 1_000;
    for (what, wanted) in [
        ("a tick after the end", tick(None, at, &[at - 1_000, at + 1])),
        ("the same tick twice", tick(None, at, &[at, at])),
        ("a tick in seconds", tick(None, at, &[seconds])),
        ("an end in seconds", tick(None, seconds, &[])),
        ("an expectation in µs", tick(Some(at * 1_000), at, &[])),
        ("no name", Tick { schedule: "", ..tick(None, at, &[at]) }),
    ] {
        let refused = fixture.queue.tick(&fixture.topic, &wanted).await;
        assert!(matches!(refused, Err(QueueError::BadCall(_))), "{what}: {refused:?}");
        assert_eq!(fixture.keys(), Vec::<String>::new(), "{what}");
    }
}

#[tokio::test]
async fn what_somebody_wrote_by_hand_is_nothing() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    for written in ["yesterday", "-1", "1e300", ""] {
        fixture.on_key("HSET", "ticks", &["beat", written]);
        let nothing = Ticked::Taken { until: None, line: String::new() };
        assert_eq!(push(&fixture, &tick(Some(at), at, &[at])).await, nothing, "{written}");
    }
    assert_eq!(push(&fixture, &tick(None, at, &[at])).await, all_pushed(1));
}

#[tokio::test]
async fn schedules_of_a_topic_are_apart_and_a_paused_topic_is_told() {
    let fixture = Fixture::new().await;
    let at = second_before(&fixture, 5).await;
    let times = [at];
    push(&fixture, &tick(None, at, &times)).await;
    let other = Tick { schedule: "other", ..tick(None, at, &times) };
    assert_eq!(push(&fixture, &other).await, all_pushed(1));
    fixture.queue.pause(&fixture.topic).await.unwrap();
    let until = Some(at);
    assert_eq!(
        state(&fixture).await,
        ScheduleState { until, last_run: until, paused: true, fault: None }
    );
    assert!(fixture.queue.schedule_states(&[]).await.unwrap().0.is_empty());
}

/// `ticks` and the jobs change in one transition, so they are in one shard: the first.
#[tokio::test]
async fn ticks_of_a_sharded_topic_are_found_in_its_first_shard() {
    let fixture = Fixture::new().await;
    let rules = Limits { shards: NonZero::new(4), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    let at = second_before(&fixture, 5).await;
    let seen = || fixture.on_key("HGET", "meta", &["shards_seen"]);
    push(&fixture, &tick(None, at - 1_000, &[])).await;
    assert_eq!(seen(), Value::BulkString(b"4".to_vec()));
    assert_eq!(push(&fixture, &tick(Some(at - 1_000), at, &[at])).await, all_pushed(1));
    assert_eq!(seen(), Value::BulkString(b"4 1".to_vec()));
    push(&fixture, &tick(Some(at), at + 1_000, &[at + 1_000])).await;
    assert_eq!(seen(), Value::BulkString(b"4 1".to_vec()));
}

#[tokio::test]
async fn the_state_of_a_schedule_that_no_runner_has_is_pruned() {
    const MONTH_MS: u64 = 30 * 86_400_000;
    let fixture = Fixture::new().await;
    let now = fixture.now_ms();
    let at = now.to_string();
    for name in ["kept", "gone", "unseen"] {
        fixture.on_key("HSET", "ticks", &[name, &at, &format!("{name}:line"), "@daily"]);
    }
    let marked = |name: &str| [(fixture.topic.clone(), name.to_owned())];
    fixture.queue.mark_schedules(&marked("kept"), now - MONTH_MS + 60_000).await.unwrap();
    fixture.queue.mark_schedules(&marked("gone"), now - MONTH_MS - 60_000).await.unwrap();
    let pruned = async || fixture.queue.prune_ended(&fixture.shard, None).await.unwrap().schedules;
    assert_eq!(pruned().await, 1);
    let left: Vec<String> = fixture.redis(redis::cmd("HKEYS").arg(fixture.key("ticks")));
    let left: std::collections::BTreeSet<String> = left.into_iter().collect();
    let expected = ["kept", "kept:line", "kept:seen", "unseen", "unseen:line", "unseen:seen"];
    assert_eq!(left, expected.map(str::to_owned).into());
    // A longer retention of the topic keeps it longer.
    fixture.queue.mark_schedules(&marked("kept"), now - 2 * MONTH_MS).await.unwrap();
    let retention = Some(Duration::from_millis(3 * MONTH_MS));
    let rules = Limits { retention, ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    assert_eq!(pruned().await, 0);
}
