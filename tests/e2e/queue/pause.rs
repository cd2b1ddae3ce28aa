//! A paused topic: nothing of it starts, whoever serves it and however often they are restarted, until
//! it is resumed.

use duebox_harness::eventually;

use crate::support::fixture::{Ground, topic};
use crate::support::log::is_said;
use crate::support::producer::push;
use crate::support::puppet::{PUPPET, Wish, count_settled, push_wishes, wish};

const TOPICS: [&str; 2] = ["mail", "report"];

fn ground() -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("", &TOPICS.map(|name| topic(name, "puppet.wat", "")));
    ground
}

fn jobs(start: &str, count: usize) -> Vec<Wish> {
    (0..count).map(|n| wish(&format!("{start}-{n}"), "l", "{}")).collect()
}

#[test]
fn nothing_of_a_paused_topic_starts_until_it_is_resumed() {
    let ground = ground();
    let store = ground.store();
    let (mut first, second) = (ground.start(), ground.start());
    ground.duebox(&["pause", "mail"]);
    push_wishes(&ground, "mail", &jobs("paused", 60));
    // By plain commands, which tell nobody.
    push(&ground, "mail", "plain", 0);
    push_wishes(&ground, "report", &jobs("beside", 40));
    let of_paused = |line: &duebox_harness::LogLine| is_said(line) && line.has("topic", "mail");
    eventually("the other topic works", || count_settled(&[&first, &second], "done") == 40);
    assert!(first.terminate().success());
    // Whoever comes finds it paused.
    let third = ground.start();
    push_wishes(&ground, "report", &jobs("again", 40));
    eventually("the other topic works on", || {
        count_settled(&[&first, &second, &third], "done") == 80
    });
    eventually("the plain one is due", || store.stage("mail", "ready").len() == 61);
    assert!([&first, &second, &third].iter().all(|daemon| daemon.count(of_paused) == 0));
    assert_eq!((store.live_count("mail"), store.stage("mail", "unack").len()), (61, 0));

    ground.duebox(&["resume", "mail"]);
    eventually("all of it runs", || store.live_count("mail") == 0);
    eventually("all of it is told", || count_settled(&[&first, &second, &third], "done") == 141);
}

#[test]
fn what_runs_when_its_topic_is_paused_is_settled_and_its_retry_waits() {
    let ground = ground();
    let store = ground.store();
    let quick = topic("mail", "puppet.wat", "backoff = \"1ms\"");
    ground.manifest("", &[quick]);
    let daemon = ground.start();
    // A nap of three seconds, then a nack.
    push_wishes(&ground, "mail", &[wish("long", &format!("{}n", "z".repeat(150)), "{}")]);
    eventually("it runs", || store.stage("mail", "unack").contains("long"));
    ground.duebox(&["pause", "mail"]);
    eventually("it is settled", || count_settled(&[&daemon], "retry") == 1);
    eventually("its next attempt is due", || store.stage("mail", "ready").contains("long"));
    assert_eq!(count_settled(&[&daemon], "done"), 0);
    ground.duebox(&["resume", "mail"]);
    eventually("it is tried again", || count_settled(&[&daemon], "done") == 1);
}
