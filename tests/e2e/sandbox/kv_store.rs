//! What handlers keep: one store a topic, in Redis, for all runners and shards, and for longer than any of
//! them lives.

use duebox_harness::eventually;
use redis::cmd;

use crate::support::fixture::{Ground, topic};
use crate::support::producer::push_many;
use crate::support::redis_state::{Store, key};

const JOBS: usize = 300;

/// Counts its jobs, and keeps under each number for a moment that it was there.
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

/// Counts until it cannot, and acks then.
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

/// The count, and how many values there are.
fn kept(store: &Store) -> (usize, usize) {
    let count: Option<usize> = store.ask(cmd("HGET").arg(key("mail", "kv")).arg("count"));
    (count.unwrap_or(0), store.ask(cmd("HLEN").arg(key("mail", "kv"))))
}

#[test]
fn runners_and_shards_share_one_store_and_a_restart_finds_it() {
    let ground = Ground::new();
    ground.write("counts.wat", COUNTS);
    ground.manifest("", &[counter("mail", "counts.wat", "shards = 4")]);
    let store = ground.store();
    let (mut first, _second) = (ground.start(), ground.start());
    push_many(&ground, "mail", JOBS);
    eventually("all are counted", || kept(&store).0 == JOBS);
    assert!(first.terminate().success());
    let _third = ground.start();
    push_many(&ground, "mail", JOBS);
    eventually("more are counted", || kept(&store).0 == 2 * JOBS);
    // Nobody calls the store any more; the keepers take away what is over.
    eventually("the moments are forgotten", || kept(&store).1 == 1);
}

#[test]
fn a_redis_that_goes_away_is_told_to_the_handler_and_no_count_is_lost() {
    let mut ground = Ground::persistent();
    ground.write("counts.wat", COUNTS_ON);
    ground.manifest("", &[counter("mail", "counts.wat", "")]);
    let store = ground.store();
    let daemon = ground.start();
    push_many(&ground, "mail", 1);
    eventually("it counts", || kept(&store).0 > 10);
    ground.redis.stop();
    let told = "kv_add: the store cannot be reached";
    daemon.wait_for_line(told, |line| line.message().starts_with(told));
    ground.redis.restart();
    eventually("its ack has come through", || store.live_count("mail") == 0);
    assert!(kept(&store).0 > 10);
}
