//! Connections to Redis that close: by `CLIENT KILL`, by Redis' `timeout`, or by what stands between.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use duebox_harness::{TestRedis, eventually};

use crate::support::client::{address, get, post};
use crate::support::fixture::{Fixture, topic};

/// Kills every connection to Redis, again and again, while `work` runs; returns the number of kills.
fn under_kills(redis: &TestRedis, every: Duration, work: impl FnOnce(&AtomicUsize)) -> usize {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (over, kills) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                kills.fetch_add(1, Ordering::Relaxed);
                thread::sleep(every);
            }
        });
        let end = Over(&over);
        work(&kills);
        drop(end);
    });
    kills.into_inner()
}

#[test]
fn no_push_over_http_fails_while_connections_are_killed() {
    let fixture = Fixture::new();
    let mail = "[topics.mail]\n[server]\nlisten = \"127.0.0.1:0\"\n".to_owned();
    fixture.manifest("", &[mail]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let mut pushed = 0;
    let kills = under_kills(&fixture.redis, Duration::from_millis(20), |kills| {
        while kills.load(Ordering::Relaxed) < 100 {
            let answer = post(at, "/v1/topics/mail/jobs", r#"{"in":"1h"}"#);
            assert_eq!(answer.status, 201, "after {pushed}: {answer:?}");
            pushed += 1;
            let answer = get(at, "/v1/topics/mail");
            assert_eq!(answer.status, 200, "after {pushed}: {answer:?}");
        }
    });
    println!("{pushed} pushes over HTTP under {kills} kills");
    assert_eq!(fixture.store().live_count("mail"), pushed);
}

/// Adds 1 to a number; a failure is a nack.
const COUNTS: &str = r#"(module
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "count")
  (func (export "handle") (param i32) (result i32)
    (i32.ne (call $kv_add (i32.const 0) (i32.const 5) (i64.const 1) (i32.const 16))
      (i32.const 0))))"#;

#[test]
fn idle_connections_that_redis_closes_fail_no_push_and_no_handler() {
    let fixture = Fixture::with_args(&["--timeout", "1"]);
    fixture.write("counts.wat", COUNTS);
    let keys = "[topics.mail.sandbox]\nkv = true\n[server]\nlisten = \"127.0.0.1:0\"";
    fixture.manifest("", &[topic("mail", "counts.wat", keys)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    for round in 1..=3 {
        // Redis closes what has been idle for a second, and the daemon connects again.
        let before = newest_client(&fixture.redis);
        eventually("idle connections were closed", || newest_client(&fixture.redis) > before);
        let answer = post(at, "/v1/topics/mail/jobs", "{}");
        assert_eq!(answer.status, 201, "{answer:?}");
        eventually("it is done", || daemon.count(|line| line.has("settled", "done")) == round);
    }
    assert_eq!(daemon.count(|line| line.has("settled", "retry")), 0);
}

/// The newest client id among the connections that are idle: it grows as they are closed and made again.
fn newest_client(redis: &TestRedis) -> u64 {
    let clients = redis.cli(&["CLIENT", "LIST"]);
    let idle = clients.lines().filter(|line| line.contains(" sub=0 psub=0 "));
    let id = |line: &str| line.split_whitespace().next()?.strip_prefix("id=")?.parse().ok();
    // The last one is redis-cli's own; busy connections of the daemon are never closed.
    idle.filter(|line| !line.contains("cmd=client")).filter_map(id).max().unwrap_or(0)
}
