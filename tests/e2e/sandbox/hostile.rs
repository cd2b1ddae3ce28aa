//! Hostile and slow handlers: each ends with its failure class, and other topics keep running.

use std::time::{Duration, Instant};

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::log::{is_handler_line, is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_many, under_load};
use crate::support::redis_state::Store;

/// Module, class, and a part of the reason.
const HOSTILE: [(&str, &str, &str); 7] = [
    ("endless_loop", "timeout", "ttr"),
    ("memory_hog", "out_of_memory", "memory"),
    ("stack_overflow", "stack_overflow", "stack"),
    ("trap_unreachable", "trap", "unreachable"),
    ("pointer_past_memory", "trap", "payload_read"),
    ("returns_seven", "bad_verdict", "7"),
    ("exits_with_zero", "exit", "exit"),
];
const JOBS_EACH: usize = 6;
/// The neighbour keeps at least this fraction of its throughput. A few endless loops on few cores add tens of
/// milliseconds to each of its jobs; hundreds would mean that its timers starve.
const PACE_KEPT_MIN: f64 = 0.1;

#[test]
fn each_ends_with_its_class_while_another_topic_runs() {
    let fixture = Fixture::new();
    let mut topics = vec![topic("good", "good.wat", "concurrency = 4")];
    fixture.write("good.wat", Handler::logs("fine").naps(Duration::from_millis(5)).wat());
    for (name, _, _) in HOSTILE {
        fixture.write(&format!("{name}.wat"), hostile(name));
        let keys = "ttr = \"500ms\"\nmax_attempts = 1\nconcurrency = 3";
        topics.push(topic(name, &format!("{name}.wat"), keys));
    }
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let store = fixture.store();
    let pushed = under_load(&fixture, "good", || {
        let alone = pace(&daemon, |done| done >= 200);
        for (name, _, _) in HOSTILE {
            push_many(&fixture, name, JOBS_EACH);
        }
        let buried = |line: &LogLine| settled_as(line, "dead");
        let shared = pace(&daemon, |_| daemon.count(buried) == HOSTILE.len() * JOBS_EACH);
        println!("the neighbour: {alone:.0} jobs/s alone, {shared:.0} jobs/s with hostile jobs");
        assert!(shared >= alone * PACE_KEPT_MIN, "{shared} jobs/s of {alone}");
    });
    eventually("the neighbour's jobs are done", || {
        daemon.count(|line| settled_as(line, "done")) == pushed.len()
    });
    for (name, class, word) in HOSTILE {
        ended_as(&daemon, &store, name, class, word);
    }
    assert!(verdicts(&daemon).iter().all(|v| v.topic != "good" || v.settled == "done"));
}

#[test]
fn a_waiting_job_does_not_delay_its_topic() {
    let fixture = Fixture::new();
    fixture.write("long.wat", Handler::logs("ran").naps(Duration::from_secs(3)).wat());
    fixture.manifest("", &[topic("long", "long.wat", "concurrency = 3")]);
    let daemon = fixture.start();
    // One at a time, so that each finds the executor tasks of the earlier ones in use.
    for id in ["a", "b", "c"] {
        push(&fixture, "long", id, 0);
        daemon.wait_for_line(id, |line| is_handler_line(line) && line.has("job_id", id));
    }
    assert_eq!(daemon.count(is_verdict), 0, "they ran one after the other");
    eventually("three are done", || daemon.count(|line| settled_as(line, "done")) == 3);
    assert_eq!(daemon.count(is_verdict), 3);
}

fn ended_as(daemon: &Daemon, store: &Store, topic: &str, class: &str, word: &str) {
    let settled: Vec<_> = verdicts(daemon).into_iter().filter(|v| v.topic == topic).collect();
    assert_eq!(settled.len(), JOBS_EACH);
    assert!(settled.iter().all(|v| v.class == class && v.settled == "dead"), "{settled:?}");
    assert_eq!(store.stage(topic, "dead").len(), JOBS_EACH);
    assert_eq!(store.live_count(topic), 0);
    for id in store.stage(topic, "dead") {
        let info = store.dead_info(topic, &id);
        assert_eq!(info["class"], class, "{info}");
        assert!(info["reason"].as_str().is_some_and(|reason| reason.contains(word)), "{info}");
        assert_eq!(info["attempt"], 1, "{info}");
        assert!(info["digest"].as_str().is_some_and(|digest| digest.len() == 64), "{info}");
    }
}

/// The jobs of the neighbour per second, until `over` returns true for their number.
fn pace(daemon: &Daemon, over: impl Fn(usize) -> bool) -> f64 {
    let done = || daemon.count(|line| line.has("topic", "good") && settled_as(line, "done"));
    let (before, since) = (done(), Instant::now());
    eventually("the neighbour's pace is measured", || over(done() - before));
    (done() - before) as f64 / since.elapsed().as_secs_f64()
}

/// Asks a thousand times to close a socket that it does not have.
const SOCKETS: &str = r#"(module
  (import "wasi_snapshot_preview1" "sock_shutdown" (func $shut (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $left i32)
    (local.set $left (i32.const 1000))
    (loop $again
      (drop (call $shut (i32.const 9) (i32.const 1)))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    (i32.const 0)))"#;

#[test]
fn calls_that_do_not_exist_write_no_log() {
    let fixture = Fixture::new();
    fixture.write("sockets.wat", SOCKETS);
    fixture.manifest("", &[topic("sockets", "sockets.wat", "")]);
    let daemon = fixture.start();
    let before = daemon.lines().len();
    push(&fixture, "sockets", "one", 0);
    daemon.wait_for_line("its verdict", is_verdict);
    let lines = daemon.lines();
    assert!(lines.len() < before + 10, "{} lines, such as {:?}", lines.len(), lines.last());
}
