//! A daemon with half a core, as in a container with a CPU limit. When a cgroup has used its quota, the kernel
//! stops all its threads until the next period. Guests that compute leave a part of the quota to the others.

use duebox_harness::{Cgroup, Daemon, Limits, LogLine, eventually, leave_out};

use crate::support::client::{address, get};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::log::settled_as;
use crate::support::producer::{Push, push_each, push_many};

/// Jobs of the quiet topic.
const QUIET: usize = 60;
/// From the push to the first due time, in ms: longer than a push stays unnoticed.
const LEAD_MS: u64 = 1_000;
/// Between two due times, in ms: not a divisor of the period of 100 ms.
const EVERY_MS: u64 = 43;
/// The quiet topic next to loops may be so many times as late as alone, at its 90th percentile ...
const TIMES_LATER: f64 = 20.0;
/// ... and is not measured more closely than this, in ms: on a busy machine the time alone is not steady.
const ALONE_MIN_MS: f64 = 1.0;
/// Endless loops at once.
const LOOPS: usize = 8;
/// A number of cores that no machine has.
const UNLIMITED: f64 = 10_000.0;

/// A cgroup with half a core, or `None` where cgroups cannot be written.
fn half_a_core() -> Option<Cgroup> {
    match Cgroup::create(Limits { cpus: 0.5, memory: None }) {
        Ok(cgroup) => Some(cgroup),
        Err(error) => {
            leave_out(&format!("no cgroup with a CPU quota can be created here: {error}"));
            None
        }
    }
}

/// Starts a daemon in the cgroup and waits until it serves.
fn start_in(cgroup: &Cgroup, fixture: &Fixture) -> Daemon {
    let daemon = Daemon::start_in(cgroup, &fixture.path("duebox.toml"));
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    daemon
}

/// A metric without labels.
fn metric(daemon: &Daemon, name: &str) -> Option<f64> {
    let page = String::from_utf8(get(address(daemon), "/metrics").body).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map(|value| value.parse().unwrap())
}

/// Computes for about two milliseconds.
const SHORT_LOOP: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $left i32)
    (local.set $left (i32.const 2000000))
    (loop $again
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    i32.const 0))"#;

#[test]
fn endless_loops_leave_cpu_quota_to_other_topics_and_heartbeats() {
    loops_leave_cpu_quota(&hostile("endless_loop"), 40 * LOOPS, |daemon| {
        let is_timeout = |line: &LogLine| line.has("class", "timeout");
        eventually("loops end", || daemon.count(is_timeout) >= LOOPS);
    });
}

#[test]
fn loops_of_2_ms_leave_cpu_quota_to_other_topics_and_heartbeats() {
    loops_leave_cpu_quota(SHORT_LOOP, 20_000, |_| {});
}

fn loops_leave_cpu_quota(handler: &str, jobs: usize, then: impl FnOnce(&Daemon)) {
    let fixture = Fixture::new();
    fixture.write("loops.wat", handler);
    fixture.write("good.wat", Handler::logs("fine").wat());
    let keys = format!("concurrency = {LOOPS}\nttr = \"4s\"\nmax_attempts = 1");
    let topics = [topic("loops", "loops.wat", &keys), topic("good", "good.wat", "")];
    fixture.manifest("lease = \"1s\"\ndrain_timeout = \"0s\"", &topics);
    let Some(cgroup) = half_a_core() else { return };
    let daemon = start_in(&cgroup, &fixture);
    let alone = late_ms(&fixture, &daemon, "alone");
    push_many(&fixture, "loops", jobs);
    let store = fixture.store();
    eventually("the loops run", || !store.stage("loops", "unack").is_empty());
    let before = cgroup.throttling().unwrap();
    let late = late_ms(&fixture, &daemon, "beside");
    then(&daemon);
    let after = cgroup.throttling().unwrap();
    assert!(store.live_count("loops") > LOOPS, "the loops were over before");
    let (periods, throttled) = (after.periods - before.periods, after.throttled - before.throttled);
    let [alone, late] = [alone, late].map(|late| late[QUIET * 9 / 10]);
    println!(
        "stopped in {throttled} of {periods} periods; p90: {late:.2} ms late, alone {alone:.2} ms"
    );
    let allowed = TIMES_LATER * alone.max(ALONE_MIN_MS);
    assert!(late <= allowed, "{late:.2} ms late, {allowed:.2} ms at most");
    // Without a reserve the loops use up the quota of every period.
    assert!(throttled <= periods / 4, "stopped in {throttled} of {periods} periods");
    let is_lost = |line: &LogLine| line.message().starts_with("the lease was lost");
    assert_eq!(daemon.count(is_lost), 0);
    assert_eq!(metric(&daemon, "duebox_cpu_quota_cores"), Some(0.5));
    let waited = metric(&daemon, "duebox_guest_cpu_wait_seconds_total").unwrap();
    assert!(waited > 0.0, "the loops waited for {waited} s");
}

/// How late jobs of the quiet topic reach their verdicts, in ms, in ascending order.
fn late_ms(fixture: &Fixture, daemon: &Daemon, start: &str) -> Vec<f64> {
    let first_ms = fixture.store().now_ms() + LEAD_MS;
    let ids: Vec<String> = (0..QUIET).map(|number| format!("{start}-{number}")).collect();
    let job = |(id, number): (&String, u64)| Push {
        topic: "good".to_owned(),
        id: id.clone(),
        payload: "{}".to_owned(),
        due_ms: first_ms + number * EVERY_MS,
    };
    push_each(fixture, &ids.iter().zip(0..).map(job).collect::<Vec<_>>());
    let of = |id: &String| {
        let is_its = |line: &LogLine| settled_as(line, "done") && line.has("job_id", id);
        let line = daemon.wait_for_line(id, is_its);
        line.decimal("late_ms").unwrap() + line.decimal("wall_ms").unwrap()
    };
    let mut late: Vec<f64> = ids.iter().map(of).collect();
    late.sort_by(f64::total_cmp);
    late
}

#[test]
fn a_changed_quota_is_noticed() {
    let fixture = Fixture::new();
    fixture.write("good.wat", Handler::logs("fine").wat());
    fixture.manifest("", &[topic("good", "good.wat", "")]);
    let Some(cgroup) = half_a_core() else { return };
    let daemon = start_in(&cgroup, &fixture);
    let is_limited =
        |line: &LogLine| line.message().starts_with("the CPU time of this process is limited");
    daemon
        .wait_for_line("the quota", |line| is_limited(line) && line.decimal("cores") == Some(0.5));
    cgroup.limit_cpus(0.25).unwrap();
    daemon.wait_for_line("half of it", |line| {
        is_limited(line) && line.decimal("cores") == Some(0.25)
    });
    cgroup.limit_cpus(UNLIMITED).unwrap();
    let is_free = "the CPU time of this process is no longer limited";
    daemon.wait_for_line("no quota", |line| line.message() == is_free);
    assert_eq!(metric(&daemon, "duebox_cpu_quota_cores"), None);
}
