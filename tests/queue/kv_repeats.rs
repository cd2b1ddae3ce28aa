//! A write to the store whose reply is lost is repeated, and carried out once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duebox_harness::RedisServer;
use duebox_queue::{KvCondition, KvWrite, KvWriter, QueueError};

use crate::fixture::Fixture;
use crate::script::{KV_ADD, KV_DELETE, KV_SET};

/// Connections that are cut.
const CUTS: u64 = 15;
const WRITERS: usize = 4;

#[tokio::test]
async fn a_repeated_write_is_answered_as_before_and_not_carried_out_again() {
    let fixture = Fixture::new().await;
    let add = |caller: &str, number: &str| -> Vec<String> {
        KV_ADD.call(&fixture, &["n", "5", caller, number])
    };
    assert_eq!(add("a", "1"), ["ok", "5"]);
    assert_eq!(add("b", "1"), ["ok", "10"]);
    assert_eq!(add("a", "1"), ["ok", "5"], "the sum that it had");
    assert_eq!(add("a", "2"), ["ok", "15"]);
    assert_eq!(add("a", "1"), ["stale", ""], "it comes too late");
    let set = |condition: &str, number: &str| -> String {
        KV_SET.call(&fixture, &["lock", "me", "0", condition, "c", number])
    };
    assert_eq!((set("absent", "1"), set("absent", "1")), ("ok".to_owned(), "ok".to_owned()));
    assert_eq!(set("absent", "2"), "conflict");
    let delete = |number: &str| -> String { KV_DELETE.call(&fixture, &["lock", "c", number]) };
    assert_eq!(delete("3"), "1");
    assert_eq!(set("absent", "4"), "ok");
    assert_eq!((delete("3"), delete("5")), ("stale".to_owned(), "1".to_owned()));
    fixture.on_key("HSET", "kv", &["text", "no number"]);
    let nan = |number: &str| -> Vec<String> { KV_ADD.call(&fixture, &["text", "1", "d", number]) };
    assert_eq!(nan("1")[0], "nan");
    fixture.on_key("HSET", "kv", &["text", "1"]);
    assert_eq!(nan("1")[0], "nan", "the answer stays");
}

#[tokio::test]
async fn callers_that_are_gone_are_forgotten() {
    let fixture = Fixture::new().await;
    for n in 0..100 {
        fixture.on_key("HSET", "kv:calls", &[&format!("gone:{n}"), "1 1763740800000 ok 1"]);
    }
    for number in 1..=400 {
        let _: Vec<String> = KV_ADD.call(&fixture, &["n", "1", "a", &number.to_string()]);
    }
    assert_eq!(fixture.on_key("HLEN", "kv:calls", &[]), redis::Value::Int(1));
    let redis::Value::Int(left) = fixture.on_key("PTTL", "kv:calls", &[]) else { panic!() };
    assert!((1..=3_600_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_ends_at_its_deadline_though_redis_does_not_reply() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let writer = KvWriter::new(fixture.queue.clone());
    server.pause();
    let began = Instant::now();
    let answer = writer.add(&fixture.topic, b"n", 1).await;
    let took = began.elapsed();
    server.resume();
    assert!(matches!(answer, Err(QueueError::NoReply(_))), "{answer:?}");
    // A call of its own waits for 5 s.
    assert!((Duration::from_secs(3)..Duration::from_millis(4_800)).contains(&took), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_are_exact_while_connections_are_cut() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let writer = Arc::new(KvWriter::new(fixture.queue.clone()));
    let (over, topic) = (Arc::new(AtomicBool::new(false)), fixture.topic.clone());
    let cutter = {
        let (over, url) = (Arc::clone(&over), server.url());
        std::thread::spawn(move || {
            let client = redis::Client::open(url).unwrap();
            let mut redis = client.get_connection().unwrap();
            let mut cut: u64 = 0;
            while cut < CUTS {
                let mut kill = redis::cmd("CLIENT");
                kill.arg("KILL").arg(&["TYPE", "normal", "SKIPME", "yes"]);
                cut += kill.query::<u64>(&mut redis).unwrap();
                // The writer connects again and goes on.
                std::thread::sleep(Duration::from_millis(150));
            }
            over.store(true, Ordering::Relaxed);
        })
    };
    let add = |writer: Arc<KvWriter>| {
        let (topic, over) = (topic.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            let mut sums = Vec::new();
            while !over.load(Ordering::Relaxed) {
                match writer.add(&topic, b"n", 1).await {
                    Ok(KvWrite::Done(sum)) => sums.push(sum),
                    other => panic!("{other:?}"),
                }
            }
            sums
        })
    };
    let adders: Vec<_> = (0..WRITERS).map(|_| add(Arc::clone(&writer))).collect();
    let mut sums = Vec::new();
    for adder in adders {
        sums.extend(adder.await.unwrap());
    }
    cutter.join().unwrap();
    println!("{} additions, {CUTS} cut connections", sums.len());
    sums.sort_unstable();
    let expected: Vec<i64> = (1..=sums.len() as i64).collect();
    assert!(sums == expected, "each sum was answered once");
    let set = writer.set(&topic, b"n", b"0", None, KvCondition::Always).await;
    assert_eq!(set.unwrap(), KvWrite::Done(()));
    assert!(writer.delete(&topic, b"n").await.unwrap());
}
