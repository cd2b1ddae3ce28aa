//! Follow-up jobs are pushed if and only if their parent is acked, and each once, also when a runner dies.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use duebox_harness::{Daemon, eventually};
use duebox_job::{FollowUp, FollowUpDue, JobId, Options, TopicName};
use duebox_queue::{
    ConnectionSettings, Due, Finish, IfExists, LeaseCall, Leased, NewJob, Queue, Settled, Turn,
    Verdict,
};
use redis::cmd;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_lost, is_verdict, tally};
use crate::support::monitor::{Command, Monitor};
use crate::support::producer::{push_many, push_payload};
use crate::support::puppet::FAN;
use crate::support::redis_state::{Store, key};

const PARENTS: &str = "order";
const KIDS: [&str; 2] = ["kid.one", "kid.two"];

/// A topic whose jobs push follow-ups, and the two topics of these.
fn family() -> Fixture {
    family_on(Fixture::new())
}

fn family_on(fixture: Fixture) -> Fixture {
    fixture.write("fan.wat", FAN);
    fixture.write("kid.wat", Handler::logs("ran").echoes().wat());
    let grant = "backoff = \"1h\"\n[topics.\"order\".sandbox]\npush = [\"kid.*\"]";
    let topics = [
        topic(PARENTS, "fan.wat", grant),
        topic(KIDS[0], "kid.wat", ""),
        topic(KIDS[1], "kid.wat", ""),
    ];
    fixture.manifest("lease = \"2s\"", &topics);
    fixture
}

/// The children of a parent that have their own ids, and the topic of each.
fn children(parent: &str) -> [(String, &'static str); 3] {
    [(1, KIDS[0]), (2, KIDS[0]), (3, KIDS[1])].map(|(n, topic)| (format!("{parent}.{n}"), topic))
}

/// How often each child was stored in a topic by any runner.
fn stored(commands: &[Command], topic: &str) -> BTreeMap<String, usize> {
    let jobs = key(topic, "jobs");
    let is_push = |c: &&Command| c.is("HSET") && c.words[1] == jobs;
    let mut stored = BTreeMap::new();
    for push in commands.iter().filter(is_push) {
        push.words[2..].chunks(2).for_each(|pair| *stored.entry(pair[0].clone()).or_default() += 1);
    }
    stored
}

/// The runs of children, as `topic id`.
fn runs(daemons: &[&Daemon]) -> Vec<String> {
    let lines = daemons.iter().flat_map(|daemon| handler_lines(daemon));
    let ran = lines.filter(|line| line.text == "ran" && KIDS.contains(&line.topic.as_str()));
    ran.map(|line| format!("{} {}", line.topic, line.id)).collect()
}

fn outbox(store: &Store) -> BTreeMap<String, String> {
    store.ask(cmd("HGETALL").arg(key(PARENTS, "outbox")))
}

#[test]
fn each_child_runs_once_with_the_payload_it_was_given() {
    let fixture = family();
    let (first, second, store) = (fixture.start(), fixture.start(), fixture.store());
    let daemons = [&first, &second];
    let parents: Vec<String> = (0..50).map(|n| format!("p{n}")).collect();
    for parent in &parents {
        push_payload(&fixture, PARENTS, parent, &format!("of {parent}"));
    }
    eventually("all children ran", || runs(&daemons).len() >= 150);
    eventually("nothing is left", || {
        outbox(&store).is_empty() && KIDS.iter().all(|kid| store.live_count(kid) == 0)
    });
    let expected: BTreeMap<String, usize> = parents
        .iter()
        .flat_map(|parent| children(parent))
        .map(|(id, topic)| (format!("{topic} {id}"), 1))
        .collect();
    let ran = runs(&daemons);
    let expected = expected.iter().map(|(child, times)| (child.as_str(), *times)).collect();
    assert_eq!(tally(ran.iter()), expected);
    let payloads = daemons.iter().flat_map(|daemon| handler_lines(daemon));
    for line in payloads.filter(|line| line.text.starts_with("of ")) {
        let parent = line.id.split_once('.').unwrap().0;
        assert_eq!(line.text, format!("of {parent}"), "{}", line.id);
    }
}

#[test]
fn a_kill_amid_two_thousand_parents_loses_and_repeats_no_child() {
    const JOBS: usize = 2_000;
    let fixture = family();
    let store = fixture.store();
    let monitor = Monitor::start(&fixture.redis);
    let parents = push_many(&fixture, PARENTS, JOBS);
    let (mut first, second) = (fixture.start(), fixture.start());
    eventually("a good part is settled", || first.count(is_verdict) >= JOBS / 4);
    first.kill();
    first.wait_exit();
    let left = store.live_count(PARENTS) + outbox(&store).len();
    eventually("everything is done", || {
        [PARENTS, KIDS[0], KIDS[1]].iter().all(|topic| store.live_count(topic) == 0)
            && outbox(&store).is_empty()
    });
    println!("killed with {left} of {JOBS} parents unsettled or not relayed");
    let commands = monitor.commands(&fixture.redis);
    for kid in KIDS {
        let expected: BTreeMap<String, usize> = parents
            .iter()
            .flat_map(|parent| children(parent))
            .filter(|(_, topic)| *topic == kid)
            .map(|(id, _)| (id, 1))
            .collect();
        let stored = stored(&commands, kid);
        let wrong: Vec<_> = expected.keys().filter(|id| stored.get(*id) != Some(&1)).collect();
        assert!(wrong.is_empty(), "lost or doubled in {kid}: {wrong:?}");
        assert_eq!(stored, expected);
    }
    // A child that ran in the killed runner and was not settled runs again; no other does.
    let twice = tally(runs(&[&first, &second]).iter()).values().filter(|runs| **runs > 1).count();
    let unsettled = handler_lines(&first).iter().filter(|line| line.text == "ran").count()
        - first.count(|line| is_verdict(line) && line.str("topic").starts_with("kid."));
    assert!(twice <= unsettled, "{twice} children ran twice, and {unsettled} were unsettled");
}

#[test]
fn an_outage_loses_and_repeats_no_child() {
    const JOBS: usize = 300;
    let mut fixture = family_on(Fixture::persistent());
    let store = fixture.store();
    let (first, second) = (fixture.start(), fixture.start());
    let parents = push_many(&fixture, PARENTS, JOBS);
    let daemons = [&first, &second];
    eventually("it is in the midst of it", || !runs(&daemons).is_empty());
    fixture.redis.restart();
    let left = store.live_count(PARENTS) + outbox(&store).len();
    eventually("everything is done", || {
        [PARENTS, KIDS[0], KIDS[1]].iter().all(|topic| store.live_count(topic) == 0)
            && outbox(&store).is_empty()
    });
    println!("cut off with {left} of {JOBS} parents unsettled or not relayed");
    let expected: BTreeSet<String> = parents
        .iter()
        .flat_map(|parent| children(parent))
        .map(|(id, topic)| format!("{topic} {id}"))
        .collect();
    let all_ran = || runs(&daemons).into_iter().collect::<BTreeSet<_>>();
    eventually("all of it is reported", || all_ran().len() >= expected.len());
    assert_eq!(all_ran(), expected);
    let ran = runs(&daemons);
    // A job that was pushed once runs twice only if its lease expired during the outage.
    let lost: BTreeSet<String> = daemons
        .iter()
        .flat_map(|daemon| daemon.lines())
        .filter(is_lost)
        .map(|line| format!("{} {}", line.str("topic"), line.str("job_id")))
        .collect();
    let tally = tally(ran.iter());
    let twice = tally.iter().filter(|(_, times)| **times > 1).map(|(child, _)| *child);
    let unexplained: Vec<&str> = twice.filter(|child| !lost.contains(*child)).collect();
    assert!(unexplained.is_empty(), "these ran twice: {unexplained:?}");
}

#[test]
fn a_parent_that_nacks_has_no_children_until_it_acks() {
    let fixture = family();
    let (daemon, store) = (fixture.start(), fixture.store());
    push_payload(&fixture, PARENTS, "p", "n");
    eventually("it waits for its retry", || store.stage(PARENTS, "retry").contains("p"));
    // Children of a later parent passed the same relay.
    push_payload(&fixture, PARENTS, "q", "");
    eventually("the others ran", || runs(&[&daemon]).len() == 3);
    assert!(runs(&[&daemon]).iter().all(|child| child.contains(" q.")));
    assert!(outbox(&store).is_empty());
    fixture.duebox(&["run-now", PARENTS, "p"]);
    eventually("its children ran", || runs(&[&daemon]).len() >= 6);
    let ran = runs(&[&daemon]);
    let of_p: BTreeSet<String> =
        children("p").iter().map(|(id, topic)| format!("{topic} {id}")).collect();
    let not_of_q = ran.iter().filter(|child| !child.contains(" q."));
    assert_eq!(not_of_q.cloned().collect::<BTreeSet<_>>(), of_p);
    assert_eq!(ran.len(), 6);
}

/// A runner that settles a parent with children in the outbox, and dies before it relays them.
async fn ack_and_die(fixture: &Fixture, parent: &str) {
    let settings = ConnectionSettings::new(fixture.redis.url());
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    let topic = TopicName::new(PARENTS).unwrap();
    let shard = topic.first_shard();
    let id = JobId::new(parent).unwrap();
    let (payload, options) = (Bytes::new(), Options::default());
    let job = NewJob { id, due: Due::Now, payload, options };
    queue.push(&topic, &[job], IfExists::Reject).await.unwrap();
    let call = LeaseCall::new(1, Duration::from_secs(15), format!("dies:{parent}"));
    let leased = queue.turn(&shard, &Turn { lease: Some(&call), ..Turn::default() }).await.unwrap();
    let Some(Leased::Jobs(mut jobs)) = leased.leased else { panic!("{leased:?}") };
    let follow_ups = children(parent).map(|(id, topic)| FollowUp {
        topic: TopicName::new(topic).unwrap(),
        id: JobId::new(id).unwrap(),
        due: FollowUpDue::AfterMs(0),
        payload: Bytes::new(),
        options: Options::default(),
    });
    let finish = Finish { follow_ups: follow_ups.into(), ..Finish::default() };
    let settlement = jobs.leases.remove(0).settle(Verdict::Finish(finish));
    let turn = Turn { settle: vec![&settlement], ..Turn::default() };
    let settled = queue.turn(&shard, &turn).await.unwrap();
    assert_eq!(settled.settled, Some(vec![Settled::Done]));
}

#[tokio::test]
async fn the_outbox_of_a_dead_runner_is_relayed_by_another() {
    let fixture = family();
    let store = fixture.store();
    for parent in ["before", "meanwhile"] {
        ack_and_die(&fixture, parent).await;
    }
    let left = outbox(&store);
    assert_eq!((left.len(), store.live_count(KIDS[0])), (2, 0));
    let entry = |parent: &str| left.iter().find(|(field, _)| field.ends_with(parent)).unwrap();
    let (before, meanwhile) = (entry("before"), entry("meanwhile"));
    let _: u64 = store.ask(cmd("HDEL").arg(key(PARENTS, "outbox")).arg(meanwhile.0));
    let daemon = fixture.start();
    eventually("the children ran", || runs(&[&daemon]).len() == 3);
    eventually("all is done", || {
        outbox(&store).is_empty() && KIDS.iter().all(|kid| store.live_count(kid) == 0)
    });

    // One runner dies while another is up. One deletion from the outbox was lost, so it is relayed again,
    // and no child runs again although all are done.
    for (field, value) in [before, meanwhile] {
        let _: u64 = store.ask(cmd("HSET").arg(key(PARENTS, "outbox")).arg(field).arg(value));
    }
    eventually("the outbox is empty", || outbox(&store).is_empty());
    eventually("the others' children ran", || runs(&[&daemon]).len() >= 6);
    eventually("all are settled", || KIDS.iter().all(|kid| store.live_count(kid) == 0));
    let ran = runs(&[&daemon]);
    assert!(tally(ran.iter()).values().all(|times| *times == 1), "{ran:?}");
    assert_eq!(ran.len(), 6);
}
