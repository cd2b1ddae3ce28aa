//! Follow-up jobs with large payloads do not delay the jobs of other topics.

use std::time::Duration;

use duebox_harness::{Lateness, LogLine, eventually};
use redis::{InfoDict, cmd};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::settled_as;
use crate::support::producer::{push, push_many};

/// Jobs that push at the same time, each as much as one job may.
const HEAVY: usize = 32;
/// The longest that a job of another topic may take. On a quiet machine it takes about 50 ms.
const SLOWEST: Duration = Duration::from_millis(1_500);
/// The most memory of Redis, in MiB: the follow-ups in the outbox and in their topic, and the buffers
/// of some calls.
const MEMORY_MIB: u64 = 600;

/// Pushes one follow-up job of almost 4 MiB of zero bytes.
const PUSHES_ZEROS: &str = r#"(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 80)
  (data (i32.const 1024) "topic: kid\n")
  (func (export "handle") (param i32) (result i32)
    (call $push (i32.const 1024) (i32.const 11) (i32.const 65536) (i32.const 4190000))))"#;

#[test]
fn a_neighbour_is_not_delayed_by_large_follow_ups() {
    let fixture = Fixture::new();
    fixture.write("zeros.wat", PUSHES_ZEROS);
    fixture.write("good.wat", Handler::logs("fine").wat());
    let heavy = "concurrency = 32\n[topics.\"heavy\".sandbox]\npush = [\"kid\"]\nmemory = \"8MiB\"";
    let kid = "concurrency = 8\n[topics.\"kid\".sandbox]\npayload = \"8MiB\"\nmemory = \"16MiB\"";
    let topics = [
        topic("heavy", "zeros.wat", heavy),
        topic("kid", "good.wat", kid),
        topic("good", "good.wat", ""),
    ];
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    push(&fixture, "good", "first", 0);
    daemon.wait_for_line("first", |line| settled_as(line, "done") && line.has("topic", "good"));
    push_many(&fixture, "heavy", HEAVY);
    let is_kid = |line: &LogLine| settled_as(line, "done") && line.has("topic", "kid");
    let (mut times, lateness) = (Vec::new(), Lateness::measure());
    while daemon.count(is_kid) < HEAVY {
        let id = format!("good-{}", times.len());
        push(&fixture, "good", &id, fixture.store().now_ms());
        let is_its = |line: &LogLine| settled_as(line, "done") && line.has("job_id", &id);
        let line = daemon.wait_for_line(&id, is_its);
        times.push(line.decimal("late_ms").unwrap() + line.decimal("wall_ms").unwrap());
    }
    let most = lateness.allows(SLOWEST);
    times.sort_by(f64::total_cmp);
    let slowest = *times.last().unwrap();
    let store = fixture.store();
    eventually("the outbox is empty", || store.live_count("kid") == 0);
    let memory: Vec<InfoDict> = store.ask_all(cmd("INFO").arg("memory"));
    let peaks = memory.iter().map(|info| info.get::<u64>("used_memory_peak").unwrap());
    let peak_mib = peaks.max().unwrap() >> 20;
    println!(
        "{} jobs next to {HEAVY} with 4 MiB of follow-ups: median {:.1} ms, slowest {slowest:.1} ms; \
         Redis had {peak_mib} MiB at most",
        times.len(),
        times[times.len() / 2]
    );
    let most_ms = most.as_secs_f64() * 1_000.0;
    assert!(slowest < most_ms, "{slowest} ms, at most {most_ms} ms");
    assert!(peak_mib < MEMORY_MIB, "{peak_mib} MiB");
}
