//! No job of a paused topic starts until it is resumed, whichever runner serves it and also after restarts.

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic};
use crate::support::log::is_handler_line;
use crate::support::producer::push;
use crate::support::puppet::{PUPPET, PuppetJob, count_settled, puppet_job, push_jobs};

const TOPICS: [&str; 2] = ["mail", "report"];

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &TOPICS.map(|name| topic(name, "puppet.wat", "")));
    fixture
}

fn jobs(start: &str, count: usize) -> Vec<PuppetJob> {
    (0..count).map(|n| puppet_job(&format!("{start}-{n}"), "l", "{}")).collect()
}

#[test]
fn no_job_of_a_paused_topic_starts_until_it_is_resumed() {
    let fixture = fixture();
    let store = fixture.store();
    let (mut first, second) = (fixture.start(), fixture.start());
    fixture.duebox(&["pause", "mail"]);
    push_jobs(&fixture, "mail", &jobs("paused", 60));
    // By plain commands, which send no wake-up.
    push(&fixture, "mail", "plain", 0);
    push_jobs(&fixture, "report", &jobs("beside", 40));
    let of_paused =
        |line: &duebox_harness::LogLine| is_handler_line(line) && line.has("topic", "mail");
    eventually("the other topic works", || count_settled(&[&first, &second], "done") == 40);
    assert!(first.terminate().success());
    // A new runner finds it paused.
    let third = fixture.start();
    push_jobs(&fixture, "report", &jobs("again", 40));
    eventually("the other topic works on", || {
        count_settled(&[&first, &second, &third], "done") == 80
    });
    eventually("the plain one is due", || store.stage("mail", "ready").len() == 61);
    assert!([&first, &second, &third].iter().all(|daemon| daemon.count(of_paused) == 0));
    assert_eq!((store.live_count("mail"), store.stage("mail", "unack").len()), (61, 0));

    fixture.duebox(&["resume", "mail"]);
    eventually("all of it runs", || store.live_count("mail") == 0);
    eventually("all of it is reported", || {
        count_settled(&[&first, &second, &third], "done") == 141
    });
}

#[test]
fn a_running_job_of_a_paused_topic_is_settled_and_its_retry_waits() {
    let fixture = fixture();
    let store = fixture.store();
    let quick = topic("mail", "puppet.wat", "backoff = \"1ms\"");
    fixture.manifest("", &[quick]);
    let daemon = fixture.start();
    // A line of the log, a sleep of three seconds, then a nack.
    push_jobs(&fixture, "mail", &[puppet_job("long", &format!("l{}n", "z".repeat(150)), "{}")]);
    daemon.wait_for_line("it runs", is_handler_line);
    fixture.duebox(&["pause", "mail"]);
    eventually("it is settled", || count_settled(&[&daemon], "retry") == 1);
    eventually("its next attempt is due", || store.stage("mail", "ready").contains("long"));
    assert_eq!(count_settled(&[&daemon], "done"), 0);
    fixture.duebox(&["resume", "mail"]);
    eventually("it is tried again", || count_settled(&[&daemon], "done") == 1);
}
