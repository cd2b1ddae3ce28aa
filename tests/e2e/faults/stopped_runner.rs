//! A runner that is stopped amid its work for longer than its lease, and goes on: what it says late is
//! refused and counted, and no job is settled twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duebox_harness::{Daemon, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_lost, is_said, is_verdict, tally, verdicts};
use crate::support::monitor::{Monitor, leases};
use crate::support::producer::push_many;

const TOPIC: &str = "work";
const JOBS: usize = 1_500;

fn closing(daemon: &mut Daemon, count: &str) -> i64 {
    assert!(daemon.terminate().success());
    let line = daemon.wait_for_line("the closing line", |line| {
        line.message() == "done" && line.has("topic", TOPIC)
    });
    line.number(count).unwrap()
}

#[test]
fn late_verdicts_are_lost_and_counted_and_no_job_is_settled_twice() {
    let ground = Ground::new();
    ground.write("work.wat", Handler::says("ran").naps(Duration::from_millis(60)).wat());
    ground.manifest("lease = \"1s\"", &[topic(TOPIC, "work.wat", "concurrency = 16")]);
    let store = ground.store();
    let monitor = Monitor::start(&ground.redis);
    let (mut first, mut second) = (ground.start(), ground.start());
    let pushed = push_many(&ground, TOPIC, JOBS);
    eventually("both work", || [&first, &second].iter().all(|d| d.count(is_verdict) > 16));
    first.signal("STOP");
    // The other ends the leases, and settles what the stopped one held.
    eventually("the other has done everything", || store.live_count(TOPIC) == 0);
    first.signal("CONT");
    let reclaimed = closing(&mut second, "reclaimed");
    assert!(reclaimed > 0, "it held nothing when it was stopped");
    let lost = closing(&mut first, "lost");
    println!("of {JOBS} jobs {reclaimed} were taken over, and {lost} late verdicts were refused");
    assert_eq!(lost as usize, first.count(is_lost));
    assert!(lost > 0, "nothing came late");

    let settled = [verdicts(&first), verdicts(&second)].concat();
    let times = tally(settled.iter().map(|verdict| &verdict.id));
    assert!(times.values().all(|times| *times == 1), "settled twice: {times:?}");
    assert!(settled.iter().all(|verdict| verdict.settled == "done" && verdict.attempt == 1));
    // An answer that it could not take while it stood still is told as lost, and only that.
    let refused: BTreeSet<String> =
        first.lines().iter().filter(|l| is_lost(l)).map(|l| l.str("job_id").to_owned()).collect();
    let untold = pushed.iter().filter(|id| !times.contains_key(id.as_str()));
    assert_eq!(untold.filter(|id| !refused.contains(*id)).count(), 0, "some were never settled");
    // A job that ran twice is one that was taken over.
    let ran = [&first, &second].map(|daemon| daemon.count(is_said)).iter().sum::<usize>();
    assert!(ran <= JOBS + reclaimed as usize, "{ran} runs of {JOBS} jobs");
    // Redis saw each lease end once.
    let mut ended: BTreeMap<String, i32> = BTreeMap::new();
    for change in leases(&monitor.commands(&ground.redis), TOPIC) {
        *ended.entry(change.id).or_default() += if change.expires_us.is_some() { 1 } else { -1 };
    }
    assert!(ended.values().all(|open| *open == 0), "leases that ended twice or never");
}
