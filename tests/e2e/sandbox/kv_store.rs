//! The key-value store of handlers: one per topic, in Redis, shared by all runners and shards and kept across
//! restarts.

use duebox_harness::eventually;
use redis::cmd;

use crate::support::fixture::{Fixture, topic};
use crate::support::producer::push_many;
use crate::support::redis_state::{Store, key};

const JOBS: usize = 300;

/// Counts its jobs, and stores a short-lived value for each number.
const COUNTS: &str = r#"(module
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "count")
  (func (export "handle") (param i32) (result i32)
    (if (call $kv_add (i32.const 0) (i32.const 5) (i64.const 1) (i32.const 16))
      (then (return (i32.const 1))))
    (call $kv_set (i32.const 16) (i32.const 8) (i32.const 0) (i32.const 0) (i64.const 1)
      (i32.const 1))))"#;

/// Counts until the store fails, then acks.
const COUNTS_ON: &str = r#"(module
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "count")
  (func (export "handle") (param i32) (result i32)
    (local $answer i32)
    (loop $again
      (local.set $answer
        (call $kv_add (i32.const 0) (i32.const 5) (i64.const 1) (i32.const 16)))
      (br_if $again (i32.eqz (local.get $answer))))
    (i32.ne (local.get $answer) (i32.const -6))))"#;

fn counter(name: &str, handler: &str, keys: &str) -> String {
    topic(name, handler, &format!("{keys}\n[topics.\"{name}\".sandbox]\nkv = true"))
}

/// The count, and the number of values.
fn kept(store: &Store) -> (usize, usize) {
    let count: Option<usize> = store.ask(cmd("HGET").arg(key("mail", "kv")).arg("count"));
    (count.unwrap_or(0), store.ask(cmd("HLEN").arg(key("mail", "kv"))))
}

#[test]
fn runners_and_shards_share_a_store_that_survives_a_restart() {
    let fixture = Fixture::new();
    fixture.write("counts.wat", COUNTS);
    fixture.manifest("", &[counter("mail", "counts.wat", "shards = 4")]);
    let store = fixture.store();
    let (mut first, _second) = (fixture.start(), fixture.start());
    push_many(&fixture, "mail", JOBS);
    eventually("all are counted", || kept(&store).0 == JOBS);
    assert!(first.terminate().success());
    let _third = fixture.start();
    push_many(&fixture, "mail", JOBS);
    eventually("more are counted", || kept(&store).0 == 2 * JOBS);
    // No handler uses the store any more; maintenance prunes the expired values.
    eventually("the moments are forgotten", || kept(&store).1 == 1);
}

#[test]
fn an_outage_is_an_error_in_the_handler_and_no_count_is_lost() {
    let mut fixture = Fixture::persistent();
    fixture.write("counts.wat", COUNTS_ON);
    fixture.manifest("", &[counter("mail", "counts.wat", "")]);
    let store = fixture.store();
    let daemon = fixture.start();
    push_many(&fixture, "mail", 1);
    eventually("it counts", || kept(&store).0 > 10);
    fixture.redis.stop();
    let reported = "kv_add: the store cannot be reached";
    daemon.wait_for_line(reported, |line| line.message().starts_with(reported));
    fixture.redis.restart();
    eventually("its ack has come through", || store.live_count("mail") == 0);
    assert!(kept(&store).0 > 10);
}
