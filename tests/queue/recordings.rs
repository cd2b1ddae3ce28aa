//! Recordings of dead jobs: kept in addition to them, bounded, and deleted with them.

use duebox_job::JobId;
use duebox_queue::{RECORDINGS_MAX, Settled};

use crate::fixture::{Fixture, drop_it, id};
use crate::refusal::{many, refuses};
use crate::script::{PRUNE_RECORDINGS, RECORD};
use crate::snapshot::ids;

async fn die(fixture: &Fixture, name: &str) {
    fixture.push(name).await;
    let lease = fixture.lease_only(name).await;
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
}

async fn keep(fixture: &Fixture, recordings: &[(&str, &str)]) -> u64 {
    let recordings: Vec<(JobId, Vec<u8>)> =
        recordings.iter().map(|(name, text)| (id(name), text.as_bytes().to_vec())).collect();
    fixture.queue.keep_recordings(&fixture.shard, &recordings).await.unwrap()
}

async fn recording(fixture: &Fixture, name: &str) -> Option<String> {
    let found = fixture.queue.recording(&fixture.topic, &id(name)).await.unwrap()?;
    Some(String::from_utf8(found.recording.to_vec()).unwrap())
}

#[tokio::test]
async fn a_recording_is_kept_while_its_job_is_dead() {
    let fixture = Fixture::new().await;
    for name in ["a", "b"] {
        die(&fixture, name).await;
    }
    fixture.push("live").await;
    assert_eq!(
        keep(&fixture, &[("a", "of a"), ("live", "x"), ("b", "of b"), ("none", "x")]).await,
        2
    );
    assert_eq!(recording(&fixture, "a").await.as_deref(), Some("of a"));
    assert_eq!(recording(&fixture, "live").await, None);

    assert_eq!(fixture.queue.prune(&fixture.topic, &[id("a")]).await.unwrap(), 1);
    assert_eq!(ids(&fixture.snapshot().recordings), ["b"]);
    fixture.queue.requeue(&fixture.topic, &[id("b")]).await.unwrap();
    assert_eq!(recording(&fixture, "b").await, None, "it is not dead any more");
    let pruned = fixture.queue.prune_ended(&fixture.shard, None).await.unwrap();
    assert_eq!(pruned.recordings, 1);
    let after = fixture.snapshot();
    assert!(after.recordings.is_empty() && after.recordings_at.is_empty());
}

#[tokio::test]
async fn a_later_death_makes_a_recording_invalid() {
    let fixture = Fixture::new().await;
    die(&fixture, "a").await;
    keep(&fixture, &[("a", "first")]).await;
    fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap();
    let before = fixture.now_ms();
    while fixture.now_ms() == before {}
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
    assert_eq!(recording(&fixture, "a").await, None);
    keep(&fixture, &[("a", "second")]).await;
    assert_eq!(recording(&fixture, "a").await.as_deref(), Some("second"));
    let pruned = fixture.queue.prune_ended(&fixture.shard, None).await.unwrap();
    assert_eq!(pruned.recordings, 0);
}

#[tokio::test]
async fn a_shard_keeps_the_recordings_of_its_last_deaths() {
    let fixture = Fixture::new().await;
    let names: Vec<String> =
        (0..RECORDINGS_MAX + 2).map(|number| format!("j{number:04}")).collect();
    for (number, name) in names.iter().enumerate() {
        let at = (1_763_740_800_000_u64 + number as u64).to_string();
        fixture.on_key("ZADD", "dead", &[&at, name]);
    }
    // Two calls: together they are larger than one call may be.
    let large = "x".repeat(2_000);
    let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), large.as_str())).collect();
    assert_eq!(keep(&fixture, &all).await as usize, names.len());
    let after = fixture.snapshot();
    assert_eq!(after.recordings.len(), RECORDINGS_MAX);
    assert_eq!(after.recordings_at.len(), RECORDINGS_MAX);
    assert!(!after.recordings.contains_key(b"j0001".as_slice()));
    let last = fixture.queue.last_recorded(&fixture.topic, 2).await.unwrap();
    assert_eq!(last, [id("j1001"), id("j1000")]);
    assert!(fixture.queue.last_recorded(&fixture.topic, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn invalid_calls_are_refused_as_a_whole() {
    let bad: [&[&str]; 5] = [&[], &["0"], &["1001"], &["1.5"], &["x"]];
    refuses(&PRUNE_RECORDINGS, &bad.map(|args| (args, "1 to 1000 recordings"))).await;
    let over = many(&["10"], &["a", "{}"], 1_001);
    let (most, pairs) = ("1 to 1000 recordings", "1 to 1000 ids");
    refuses(
        &RECORD,
        &[
            (&[], most),
            (&["0", "a", "{}"], most),
            (&["1001", "a", "{}"], most),
            (&["10"], pairs),
            (&["10", "a"], pairs),
            (&["10", "a", "{}", "b"], pairs),
            (&over, pairs),
        ],
    )
    .await;
}
