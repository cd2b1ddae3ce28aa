//! A thousand jobs from plain producers through the three real handlers: each ends as its handler
//! says, none early, none lost.

use std::collections::{BTreeMap, BTreeSet};

use duebox_harness::{Daemon, eventually};

use crate::ground::{Ground, built, topic};
use crate::journal::{is_verdict, said, verdicts};
use crate::producer::{Push, push_each};
use crate::store::Store;

const JOBS: usize = 1_000;
const DELAY_MAX_MS: u64 = 3_000;
/// What a runner's death adds to the count of a job's attempts; a failure adds 1.
const CRASH: u64 = 1_000_000;

/// What a payload must come to: the settled word of each attempt, and the class of the last.
type Fate = (&'static [&'static str], &'static str);

const ACKED: Fate = (&["done"], "");
const ACKED_AT_SECOND: Fate = (&["retry", "done"], "");
const DROPPED: Fate = (&["dead"], "drop");
const DROPPED_AT_THIRD: Fate = (&["retry", "retry", "dead"], "drop");
const SPENT: Fate = (&["retry", "retry", "dead"], "nack");
const WAITING: Fate = (&["retry"], "nack");

const ORDER: &str = "order.close";
const SHOP: &str = "shop.activation";
const PAYMENT: &str = "payment.poll";
const TOPICS: [&str; 3] = [ORDER, SHOP, PAYMENT];

/// Ground on which all three handlers have three attempts each.
fn ground() -> Ground {
    let ground = Ground::new();
    let topics = [
        topic(
            ORDER,
            &built("order-close"),
            "max_attempts = 3\nmax_crashes = 9\nsandbox.config.processing_wait_s = 0.2",
        ),
        topic(
            SHOP,
            &built("shop-activation"),
            "max_attempts = 3\nmax_crashes = 9\nsandbox.config.days = 0",
        ),
        topic(PAYMENT, &built("payment-poll"), "max_crashes = 9\nbackoff = [\"200ms\", \"300ms\"]"),
    ];
    ground.manifest("lease = \"1s\"", &topics);
    ground
}

/// The `n`-th payload for a topic, and what becomes of it.
fn payload(topic: &str, n: usize) -> (String, Fate) {
    let shop = |goods: u32, status: &str, opened_at: &str| {
        format!(
            r#"{{"shop":{{"id":"s-{n}","name":"Bramble & Co","locale":"de-AT","status":"{status}",
            "goods":{goods},"opened_at":"{opened_at}","owner":{{"email":"ada@bramble.example"}}}}}}"#
        )
        .replace('\n', "")
    };
    let payment = |states: &str| {
        format!(r#"{{"payment":{{"id":"pay_{n}","amount":"19.90","states":[{states}]}}}}"#)
    };
    let order =
        |payment: &str| format!(r#"{{"order":{n},"amount":"149.90","payment":{{{payment}}}}}"#);
    match (topic, n % 6) {
        (ORDER, 0) => (format!(r#"{{"order":{n}}}"#), ACKED),
        (ORDER, 1) => (order(r#""state":"unpaid""#), ACKED),
        (ORDER, 2) => (order(r#""state":"paid""#), ACKED),
        (ORDER, 3) => (order(r#""states":["processing","paid"]"#), ACKED_AT_SECOND),
        (ORDER, 4) => (order(r#""state":"processing""#), SPENT),
        (ORDER, _) => (format!(r#"{{"order":{n}"#), DROPPED),
        (SHOP, 0 | 1) => (shop(0, "open", "2026-01-05T09:00:00Z"), ACKED),
        (SHOP, 2) => (shop(7, "open", "2026-01-05T09:00:00Z"), ACKED),
        (SHOP, 3) => (shop(0, "closed", "2026-01-05T09:00:00Z"), DROPPED),
        (SHOP, 4) => (shop(0, "open", "2126-01-05T09:00:00Z"), WAITING),
        (SHOP, _) => (r#"{"shop":{"id":""}}"#.to_owned(), DROPPED),
        (_, 0) => (payment(r#""paid""#), ACKED),
        (_, 1) => (payment(r#""open","paid""#), ACKED_AT_SECOND),
        (_, 2) => (payment(r#""failed""#), DROPPED),
        (_, 3) => (payment(r#""open","open","cancelled""#), DROPPED_AT_THIRD),
        (_, 4) => (payment(r#""open""#), SPENT),
        (_, _) => (r#"{"payment":[]}"#.to_owned(), DROPPED),
    }
}

/// The ledger: each job as it was pushed, with its fate.
struct Ledger {
    jobs: Vec<(Push, Fate)>,
}

impl Ledger {
    /// Jobs spread over the topics and over three seconds; some without a delay.
    fn new(now_ms: u64, fates: impl Fn(&Fate) -> bool) -> Self {
        let job = |n: usize| {
            let topic = TOPICS[n % 3];
            let (payload, fate) = payload(topic, n / 3);
            let due_ms =
                if n.is_multiple_of(10) { 0 } else { now_ms + (n as u64 * 337) % DELAY_MAX_MS };
            (Push { topic: topic.to_owned(), id: format!("job-{n}"), payload, due_ms }, fate)
        };
        let jobs = (0..).map(job).filter(|(_, fate)| fates(fate)).take(JOBS).collect();
        Self { jobs }
    }

    fn push(&self, ground: &Ground) -> Vec<usize> {
        let counts =
            TOPICS.map(|topic| self.jobs.iter().filter(|job| job.0.topic == topic).count());
        let script: Vec<Push> = self
            .jobs
            .iter()
            .map(|(job, _)| Push {
                topic: job.topic.clone(),
                id: job.id.clone(),
                payload: job.payload.clone(),
                due_ms: job.due_ms,
            })
            .collect();
        push_each(ground, &script);
        counts.to_vec()
    }

    fn verdicts(&self) -> usize {
        self.jobs.iter().map(|(_, fate)| fate.0.len()).sum()
    }

    /// The ids of a topic whose last word is this one.
    fn ending(&self, topic: &str, word: &str) -> BTreeSet<String> {
        let ends = |(job, fate): &&(Push, Fate)| job.topic == topic && fate.0.last() == Some(&word);
        self.jobs.iter().filter(ends).map(|(job, _)| job.id.clone()).collect()
    }

    /// True once nothing is on its way any more, by what lies in Redis.
    fn is_over(&self, store: &Store) -> bool {
        TOPICS.iter().all(|topic| {
            let none_in = |stage: &&str| store.stage(topic, stage).is_empty();
            store.stage(topic, "retry") == self.ending(topic, "retry")
                && ["pending", "ready", "unack"].iter().all(none_in)
        })
    }

    fn compare_with_log(&self, daemon: &Daemon) {
        let mut settled: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for verdict in verdicts(daemon) {
            settled.entry(verdict.id.clone()).or_default().push(verdict);
        }
        assert_eq!(settled.len(), self.jobs.len());
        for (job, (words, class)) in &self.jobs {
            let found = &settled[&job.id];
            let said: Vec<&str> = found.iter().map(|verdict| verdict.settled.as_str()).collect();
            assert_eq!(&said, words, "{} {} {}", job.topic, job.id, job.payload);
            let attempts = found.iter().map(|verdict| verdict.attempt);
            assert!(attempts.eq(1..=words.len() as i64), "{found:?}");
            assert_eq!(found.last().unwrap().class, *class, "{}", job.payload);
            assert!(found.iter().all(|verdict| verdict.topic == job.topic), "{found:?}");
        }
    }

    /// Each attempt has the handler's own line, and none of them is from before the due time.
    fn compare_with_handlers(&self, daemon: &Daemon) {
        let mut lines: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for line in said(daemon).into_iter().filter(|line| line.text.starts_with("verdict=")) {
            lines.entry(line.id.clone()).or_default().push(line);
        }
        for (job, (words, _)) in &self.jobs {
            let found = &lines[&job.id];
            assert!(found.iter().map(|line| line.attempt).eq(1..=words.len() as i64), "{found:?}");
            assert!(found.iter().all(|line| line.at_ms >= job.due_ms as i64), "early: {found:?}");
            let last = match words.last() {
                Some(&"done") => "verdict=ack",
                _ if job.payload.contains("\"open\"]") || job.payload.contains("processing\"}") => {
                    "verdict=nack"
                }
                _ => "verdict=",
            };
            assert!(found.last().unwrap().text.starts_with(last), "{found:?}");
        }
    }

    fn compare_with_redis(&self, store: &Store) {
        for topic in TOPICS {
            let (dead, waiting) = (self.ending(topic, "dead"), self.ending(topic, "retry"));
            assert_eq!(store.stage(topic, "dead"), dead);
            assert_eq!(store.stage(topic, "retry"), waiting);
            assert_eq!(store.live(topic), waiting);
            let failures = store.attempts(topic).into_iter().map(|(id, count)| (id, count % CRASH));
            assert!(failures.eq(waiting.into_iter().map(|id| (id, 1))));
            for stage in ["pending", "ready", "unack"] {
                assert_eq!(store.stage(topic, stage), BTreeSet::new(), "{topic} {stage}");
            }
            for (job, fate) in &self.jobs {
                if dead.contains(&job.id) && job.topic == topic {
                    assert_eq!(store.dead_class(topic, &job.id), fate.1, "{}", job.payload);
                }
            }
        }
    }
}

#[test]
fn a_thousand_jobs_end_as_their_handlers_say() {
    let ground = ground();
    let daemon = ground.start();
    let store = ground.store();
    let ledger = Ledger::new(store.now_ms(), |_| true);
    let counts = ledger.push(&ground);
    println!("pushed {counts:?} jobs with redis-cli");
    eventually("every attempt is settled", || daemon.count(is_verdict) >= ledger.verdicts());
    ledger.compare_with_log(&daemon);
    ledger.compare_with_handlers(&daemon);
    ledger.compare_with_redis(&store);
    let mut late: Vec<f64> = daemon.lines().iter().filter_map(|l| l.decimal("late_ms")).collect();
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late[(late.len() as f64 * part) as usize];
    println!(
        "late by p50 {} ms, p99 {} ms, at most {} ms",
        at(0.5),
        at(0.99),
        late[late.len() - 1]
    );
}

/// Deaths of the runner spend no attempt and lose no verdict: Redis ends up as if there were none.
#[test]
fn a_thousand_jobs_end_as_their_handlers_say_though_runners_die() {
    const DEATHS: usize = 4;
    let ground = ground();
    let store = ground.store();
    let ledger = Ledger::new(store.now_ms(), |_| true);
    ledger.push(&ground);
    let mut heard = Vec::new();
    for death in 1..=DEATHS {
        let mut daemon = ground.start();
        let part = ledger.verdicts() / 20;
        eventually("a part is settled", || {
            daemon.count(is_verdict) >= part || ledger.is_over(&store)
        });
        assert!(death > 1 || !ledger.is_over(&store), "not killed in the middle");
        daemon.kill();
        daemon.wait_exit();
        heard.extend(verdicts(&daemon));
    }
    let mut last = ground.start();
    eventually("every job has ended", || ledger.is_over(&store));
    assert!(last.terminate().success());
    heard.extend(verdicts(&last));
    ledger.compare_with_redis(&store);
    // No attempt was settled twice; those whose line died with the runner are not heard of.
    let mut attempts: Vec<_> = heard.iter().map(|v| (&v.id, v.attempt)).collect();
    attempts.sort_unstable();
    assert!(attempts.is_sorted_by(|a, b| a < b), "an attempt was settled twice");
    let (heard, all) = (heard.len(), ledger.verdicts());
    println!("{heard} of {all} verdicts were heard of, through {DEATHS} deaths");
}

#[test]
fn of_topics_whose_jobs_are_acked_nothing_is_left() {
    let ground = ground();
    let mut daemon = ground.start();
    let store = ground.store();
    let ledger = Ledger::new(store.now_ms(), |fate| fate.0.last() == Some(&"done"));
    ledger.push(&ground);
    eventually("every attempt is settled", || daemon.count(is_verdict) >= ledger.verdicts());
    ledger.compare_with_log(&daemon);
    assert!(daemon.terminate().success());
    for topic in TOPICS {
        assert_eq!(store.keys(topic), BTreeSet::new(), "{topic}");
    }
}
