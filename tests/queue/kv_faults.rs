//! Known faults of stores like this one, each planted with plain commands or by an unlucky order of calls,
//! and what the store makes of it. What is refused has changed nothing.

use std::time::Duration;

use duebox_queue::{KV_BYTES_MAX, KV_NAMES_MAX, KvCondition, KvWrite, QueueError};

use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3_600);
const DONE: KvWrite<()> = KvWrite::Done(());

impl Fixture {
    async fn write(&self, value: &str, condition: KvCondition) -> KvWrite<()> {
        self.write_for(None, value, condition).await
    }

    async fn write_for(
        &self,
        ttl: Option<Duration>,
        value: &str,
        condition: KvCondition,
    ) -> KvWrite<()> {
        self.queue.kv_set(&self.topic, b"a", value.as_bytes(), ttl, condition).await.unwrap()
    }

    async fn revision(&self) -> u64 {
        self.queue.kv_get(&self.topic, b"a").await.unwrap().unwrap().revision
    }

    async fn is_there(&self) -> bool {
        self.queue.kv_get(&self.topic, b"a").await.unwrap().is_some()
    }

    async fn count_on(&self, delta: i64) -> KvWrite<i64> {
        self.queue.kv_add(&self.topic, b"a", delta).await.unwrap()
    }

    /// Puts the time of the value into the past.
    fn end_its_time(&self) {
        self.on_key("ZADD", "kv:at", &["XX", "1763740800000", "a"]);
    }

    fn times(&self) -> usize {
        self.snapshot().kv_at.len()
    }
}

#[tokio::test]
async fn a_value_that_was_taken_away_and_written_again_is_another_one() {
    let fixture = Fixture::new().await;
    fixture.write("1", KvCondition::Always).await;
    let seen = fixture.revision().await;
    assert!(fixture.queue.kv_delete(&fixture.topic, b"a").await.unwrap());
    fixture.write("1", KvCondition::Always).await;
    assert_eq!(fixture.write("2", KvCondition::IfRevision(seen)).await, KvWrite::Conflict);
    let seen = fixture.revision().await;
    assert_eq!(fixture.write("2", KvCondition::IfRevision(seen)).await, DONE);
    assert_eq!(fixture.write("3", KvCondition::IfRevision(seen)).await, KvWrite::Conflict);
}

#[tokio::test]
async fn a_clock_that_was_set_back_gives_no_revision_twice() {
    let fixture = Fixture::new().await;
    fixture.write("1", KvCondition::Always).await;
    // Written an hour ahead of the clock that there is now.
    let ahead = fixture.revision().await + 3_600_000_000;
    fixture.on_key("HSET", "kv:rev", &["a", &ahead.to_string()]);
    assert_eq!(fixture.write("2", KvCondition::IfRevision(ahead)).await, DONE);
    assert_eq!(fixture.revision().await, ahead + 1);
    assert_eq!(fixture.count_on(1).await, KvWrite::Done(3));
    assert_eq!(fixture.revision().await, ahead + 2);
}

#[tokio::test]
async fn what_is_over_holds_no_condition_and_counts_for_nothing() {
    let fixture = Fixture::new().await;
    for (number, condition) in [KvCondition::IfAbsent, KvCondition::Always].into_iter().enumerate()
    {
        fixture.write_for(Some(HOUR), "41", KvCondition::Always).await;
        let seen = fixture.revision().await;
        fixture.end_its_time();
        assert!(!fixture.is_there().await, "{number}");
        assert_eq!(fixture.write("x", KvCondition::IfRevision(seen)).await, KvWrite::Conflict);
        assert_eq!(fixture.write("42", condition).await, DONE, "{number}");
    }
    fixture.write_for(Some(HOUR), "41", KvCondition::Always).await;
    fixture.end_its_time();
    assert_eq!(fixture.count_on(1).await, KvWrite::Done(1), "the count begins anew");
    assert_eq!(fixture.times(), 0, "and does not expire");
}

#[tokio::test]
async fn the_time_of_a_value_goes_with_the_value_and_a_sum_keeps_it() {
    let fixture = Fixture::new().await;
    fixture.write_for(Some(HOUR), "1", KvCondition::Always).await;
    fixture.write("2", KvCondition::Always).await;
    assert_eq!(fixture.times(), 0, "written without expiry");
    fixture.write_for(Some(HOUR), "3", KvCondition::Always).await;
    assert_eq!((fixture.count_on(4).await, fixture.times()), (KvWrite::Done(7), 1));
    fixture.end_its_time();
    assert!(!fixture.is_there().await);
    // A refused write leaves the time as it was.
    fixture.write_for(Some(HOUR), "text", KvCondition::Always).await;
    let before = fixture.snapshot().state();
    assert_eq!(fixture.count_on(1).await, KvWrite::NotANumber);
    assert_eq!(fixture.write("x", KvCondition::IfAbsent).await, KvWrite::Conflict);
    assert_eq!(fixture.snapshot().state(), before);
}

#[tokio::test]
async fn a_sum_beyond_64_bits_is_refused_at_both_ends() {
    let fixture = Fixture::new().await;
    for (start, delta) in [(i64::MAX, 1), (i64::MIN, -1), (i64::MAX, i64::MAX)] {
        fixture.write(&start.to_string(), KvCondition::Always).await;
        let before = fixture.snapshot().state();
        assert_eq!(fixture.count_on(delta).await, KvWrite::NotANumber, "{start} {delta}");
        assert_eq!(fixture.snapshot().state(), before);
    }
    assert_eq!(fixture.count_on(i64::MIN).await, KvWrite::Done(-1));
    for text in ["", " 1", "1 ", "1.0", "0x1", "--1", "9223372036854775808"] {
        fixture.write(text, KvCondition::Always).await;
        assert_eq!(fixture.count_on(1).await, KvWrite::NotANumber, "{text:?}");
    }
}

#[tokio::test]
async fn at_its_bounds_a_store_lets_go_and_shrinks_and_takes_nothing_new() {
    let fixture = Fixture::new().await;
    fixture.write("12345", KvCondition::Always).await;
    for (names, bytes) in [(KV_NAMES_MAX - 1, 6), (1, KV_BYTES_MAX)] {
        let mut fill = redis::pipe();
        for number in 0..names {
            fill.hset(fixture.key("kv"), format!("fill-{number}"), "").ignore();
        }
        fixture.exec(&fill);
        fixture.on_key("HSET", "meta", &["kv_bytes", &bytes.to_string()]);
        let other = async || {
            let value = fixture.queue.kv_set(&fixture.topic, b"b", b"", None, KvCondition::Always);
            let sum = fixture.queue.kv_add(&fixture.topic, b"b", 1);
            (value.await.unwrap(), sum.await.unwrap())
        };
        let before = fixture.snapshot().state();
        assert_eq!(other().await, (KvWrite::Full, KvWrite::Full), "{names} {bytes}");
        assert_eq!(fixture.snapshot().state(), before);
        assert_eq!(fixture.write("1", KvCondition::Always).await, DONE, "{names}: it may shrink");
        assert!(fixture.queue.kv_delete(&fixture.topic, b"a").await.unwrap());
        assert_eq!(
            fixture.write("12345", KvCondition::Always).await,
            DONE,
            "{names}: in its place"
        );
        fixture.on_key("DEL", "kv", &[]);
        fixture.on_key("DEL", "kv:rev", &[]);
        fixture.on_key("DEL", "meta", &[]);
        fixture.write("12345", KvCondition::Always).await;
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_that_changes_nothing() {
    for name in ["kv", "kv:rev", "kv:at", "meta"] {
        let fixture = Fixture::new().await;
        fixture.on_key("SET", name, &["a text"]);
        let before = fixture.keys();
        let (queue, topic) = (&fixture.queue, &fixture.topic);
        let set = queue.kv_set(topic, b"a", b"1", Some(HOUR), KvCondition::Always).await;
        let errors = [set.err(), queue.kv_add(topic, b"a", 1).await.err()];
        for error in errors {
            assert!(matches!(error, Some(QueueError::BadData(_))), "{name}: {error:?}");
        }
        assert_eq!(fixture.keys(), before, "{name}");
    }
}
