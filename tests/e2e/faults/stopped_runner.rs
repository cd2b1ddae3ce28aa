//! A runner that is stopped for longer than its lease and then continues. Its late verdicts are refused and
//! counted, and no job is settled twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duebox_harness::{Daemon, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_handler_line, is_lost, is_verdict, tally, verdicts};
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
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(60)).wat());
    fixture.manifest("lease = \"1s\"", &[topic(TOPIC, "work.wat", "concurrency = 16")]);
    let store = fixture.store();
    let monitor = Monitor::start(&fixture.redis);
    let (mut first, mut second) = (fixture.start(), fixture.start());
    let pushed = push_many(&fixture, TOPIC, JOBS);
    eventually("both work", || [&first, &second].iter().all(|d| d.count(is_verdict) > 16));
    first.signal("STOP");
    // The other runner reclaims the leases and settles the jobs of the stopped one.
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
    // Only verdicts whose replies it could not read are reported as lost.
    let refused: BTreeSet<String> =
        first.lines().iter().filter(|l| is_lost(l)).map(|l| l.str("job_id").to_owned()).collect();
    let untold = pushed.iter().filter(|id| !times.contains_key(id.as_str()));
    assert_eq!(untold.filter(|id| !refused.contains(*id)).count(), 0, "some were never settled");
    // Only a reclaimed job ran twice.
    let ran = [&first, &second].map(|daemon| daemon.count(is_handler_line)).iter().sum::<usize>();
    assert!(ran <= JOBS + reclaimed as usize, "{ran} runs of {JOBS} jobs");
    // Each lease ended once in Redis.
    let mut ended: BTreeMap<String, i32> = BTreeMap::new();
    for change in leases(&monitor.commands(&fixture.redis), TOPIC) {
        *ended.entry(change.id).or_default() += if change.expires_us.is_some() { 1 } else { -1 };
    }
    assert!(ended.values().all(|open| *open == 0), "leases that ended twice or never");
}
