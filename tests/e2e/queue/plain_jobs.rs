//! A thousand jobs from plain producers run through the three real handlers, which call a shop. Each ends with the
//! expected verdict, none runs early or is lost, and each request to the shop takes effect once.

use std::collections::{BTreeMap, BTreeSet};

use duebox_harness::{Daemon, eventually};

use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::{handler_lines, is_verdict, verdicts};
use crate::support::producer::{Push, push_each};
use crate::support::redis_state::Store;
use crate::support::shop::OpenShop;

const JOBS: usize = 1_000;
const DELAY_MAX_MS: u64 = 3_000;
/// What a runner's death adds to the count of a job's attempts; a failure adds 1.
const CRASH: u64 = 1_000_000;

/// The expected result: the settlement of each attempt, and the class of the last.
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

/// A fixture with all three handlers, three attempts each, and this shop.
fn fixture(counter: &OpenShop) -> Fixture {
    let fixture = Fixture::new();
    // Most of these jobs fail at first, many in a row.
    let keys = |keys: &str| {
        format!("max_crashes = 9\nbreaker = {{ failures = 0 }}\n{keys}\n{}", counter.grant())
    };
    let order = keys("max_attempts = 3\nsandbox.config.processing_wait_s = 0.2");
    let shop = keys("max_attempts = 3\nsandbox.config.days = 0");
    let payment = keys("backoff = [\"200ms\", \"300ms\"]");
    let topics = [
        topic(ORDER, &built("order-close"), &order),
        topic(SHOP, &built("shop-activation"), &shop),
        topic(PAYMENT, &built("payment-poll"), &payment),
    ];
    fixture.manifest("lease = \"1s\"", &topics);
    fixture
}

/// The `n`-th payload for a topic, the responses of the payment provider, and the expected result of
/// the job.
fn payload(topic: &str, n: usize) -> (String, &'static [&'static str], Fate) {
    let shop = |goods: u32, status: &str, opened_at: &str| {
        format!(
            r#"{{"shop":{{"id":"s-{n}","name":"Bramble & Co","locale":"de-AT","status":"{status}",
            "goods":{goods},"opened_at":"{opened_at}","owner":{{"email":"ada@bramble.example"}}}}}}"#
        )
        .replace('\n', "")
    };
    let payment = format!(r#"{{"payment":{{"id":"pay_{n}","amount":"19.90"}}}}"#);
    let order = format!(r#"{{"order":{n},"amount":"149.90"}}"#);
    match (topic, n % 6) {
        (ORDER, 0) => (format!(r#"{{"order":{n}}}"#), &[], ACKED),
        (ORDER, 1) => (order, &["failed"], ACKED),
        (ORDER, 2) => (order, &["paid"], ACKED),
        (ORDER, 3) => (order, &["processing", "paid"], ACKED_AT_SECOND),
        (ORDER, 4) => (order, &["processing"], SPENT),
        (ORDER, _) => (format!(r#"{{"order":{n}"#), &[], DROPPED),
        (SHOP, 0 | 1) => (shop(0, "open", "2026-01-05T09:00:00Z"), &[], ACKED),
        (SHOP, 2) => (shop(7, "open", "2026-01-05T09:00:00Z"), &[], ACKED),
        (SHOP, 3) => (shop(0, "closed", "2026-01-05T09:00:00Z"), &[], DROPPED),
        (SHOP, 4) => (shop(0, "open", "2126-01-05T09:00:00Z"), &[], WAITING),
        (SHOP, _) => (r#"{"shop":{"id":""}}"#.to_owned(), &[], DROPPED),
        (_, 0) => (payment, &["paid"], ACKED),
        (_, 1) => (payment, &["open", "paid"], ACKED_AT_SECOND),
        (_, 2) => (payment, &["failed"], DROPPED),
        (_, 3) => (payment, &["open", "open", "cancelled"], DROPPED_AT_THIRD),
        (_, 4) => (payment, &["open"], SPENT),
        (_, _) => (r#"{"payment":[]}"#.to_owned(), &[], DROPPED),
    }
}

/// Writes the `n`-th order or payment into the shop's books.
fn place(counter: &OpenShop, topic: &str, n: usize, states: &[&str]) {
    match topic {
        ORDER => counter.shop.books().place_order(&n.to_string(), states),
        PAYMENT => counter.shop.books().start_payment(&format!("pay_{n}"), states),
        _ => {}
    }
}

/// The ledger: each pushed job with its expected result.
struct Ledger {
    jobs: Vec<(Push, Fate)>,
}

impl Ledger {
    /// Jobs spread over the topics and over three seconds; some without a delay. The shop knows
    /// each of them.
    fn new(now_ms: u64, counter: &OpenShop, fates: impl Fn(&Fate) -> bool) -> Self {
        let job = |n: usize| {
            let topic = TOPICS[n % 3];
            let (payload, states, fate) = payload(topic, n / 3);
            place(counter, topic, n / 3, states);
            let due_ms =
                if n.is_multiple_of(10) { 0 } else { now_ms + (n as u64 * 337) % DELAY_MAX_MS };
            (Push { topic: topic.to_owned(), id: format!("job-{n}"), payload, due_ms }, fate)
        };
        let jobs = (0..).map(job).filter(|(_, fate)| fates(fate)).take(JOBS).collect();
        Self { jobs }
    }

    fn push(&self, fixture: &Fixture) -> Vec<usize> {
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
        push_each(fixture, &script);
        counts.to_vec()
    }

    fn verdicts(&self) -> usize {
        self.jobs.iter().map(|(_, fate)| fate.0.len()).sum()
    }

    /// The ids of a topic whose last settlement is this one.
    fn ending(&self, topic: &str, word: &str) -> BTreeSet<String> {
        let ends = |(job, fate): &&(Push, Fate)| job.topic == topic && fate.0.last() == Some(&word);
        self.jobs.iter().filter(ends).map(|(job, _)| job.id.clone()).collect()
    }

    /// Whether no job is in progress any more, by the state of Redis.
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
            let printed: Vec<&str> = found.iter().map(|verdict| verdict.settled.as_str()).collect();
            assert_eq!(&printed, words, "{} {} {}", job.topic, job.id, job.payload);
            let attempts = found.iter().map(|verdict| verdict.attempt);
            assert!(attempts.eq(1..=words.len() as i64), "{found:?}");
            assert_eq!(found.last().unwrap().class, *class, "{}", job.payload);
            assert!(found.iter().all(|verdict| verdict.topic == job.topic), "{found:?}");
        }
    }

    /// Each attempt has a line of the handler, and none is earlier than the due time.
    fn compare_with_handlers(&self, daemon: &Daemon) {
        let mut lines: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for line in
            handler_lines(daemon).into_iter().filter(|line| line.text.starts_with("verdict="))
        {
            lines.entry(line.id.clone()).or_default().push(line);
        }
        for (job, (words, class)) in &self.jobs {
            let found = &lines[&job.id];
            assert!(found.iter().map(|line| line.attempt).eq(1..=words.len() as i64), "{found:?}");
            assert!(found.iter().all(|line| line.at_ms >= job.due_ms as i64), "early: {found:?}");
            let last = if class.is_empty() { "ack" } else { class };
            let last = format!("verdict={last} ");
            assert!(found.last().unwrap().text.starts_with(&last), "{found:?}");
        }
    }

    /// Each unpaid order was closed and each message sent, once, and nothing else was.
    fn compare_with_shop(&self, counter: &OpenShop) {
        let effects = |what: &str| {
            let lines = counter.ledger(what).into_iter().filter(|(_, _, effect)| *effect);
            let keys: Vec<String> = lines.map(|(_, key, _)| key).collect();
            let once: BTreeSet<String> = keys.iter().cloned().collect();
            assert_eq!(once.len(), keys.len(), "{what} twice");
            once
        };
        let wanted = |topic: &str, kinds: &[usize]| -> BTreeSet<String> {
            let jobs = self.jobs.iter().map(|(job, _)| job).filter(|job| job.topic == topic);
            let number = |job: &Push| job.id["job-".len()..].parse::<usize>().unwrap() / 3;
            let jobs = jobs.filter(|job| kinds.contains(&(number(job) % 6)));
            jobs.map(|job| format!("{topic}/{}", job.id)).collect()
        };
        assert_eq!(effects("closed"), wanted(ORDER, &[0, 1]));
        assert_eq!(effects("sent"), wanted(SHOP, &[0, 1]));
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
    let counter = OpenShop::open();
    let fixture = fixture(&counter);
    let daemon = fixture.start();
    let store = fixture.store();
    let ledger = Ledger::new(store.now_ms(), &counter, |_| true);
    let counts = ledger.push(&fixture);
    println!("pushed {counts:?} jobs with redis-cli");
    eventually("every attempt is settled", || daemon.count(is_verdict) >= ledger.verdicts());
    ledger.compare_with_log(&daemon);
    ledger.compare_with_handlers(&daemon);
    ledger.compare_with_redis(&store);
    ledger.compare_with_shop(&counter);
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

/// Deaths of the runner spend no attempt and lose no verdict. The final state of Redis is the same.
#[test]
fn a_thousand_jobs_end_as_their_handlers_say_while_runners_die() {
    const DEATHS: usize = 4;
    let counter = OpenShop::open();
    let fixture = fixture(&counter);
    let store = fixture.store();
    let ledger = Ledger::new(store.now_ms(), &counter, |_| true);
    ledger.push(&fixture);
    let mut heard = Vec::new();
    for death in 1..=DEATHS {
        let mut daemon = fixture.start();
        let part = ledger.verdicts() / 20;
        eventually("a part is settled", || {
            daemon.count(is_verdict) >= part || ledger.is_over(&store)
        });
        assert!(death > 1 || !ledger.is_over(&store), "not killed in the middle");
        daemon.kill();
        daemon.wait_exit();
        heard.extend(verdicts(&daemon));
    }
    let mut last = fixture.start();
    eventually("every job has ended", || ledger.is_over(&store));
    assert!(last.terminate().success());
    heard.extend(verdicts(&last));
    ledger.compare_with_redis(&store);
    ledger.compare_with_shop(&counter);
    // No attempt was settled twice. Attempts whose log line was lost with the runner are not counted.
    let mut attempts: Vec<_> = heard.iter().map(|v| (&v.id, v.attempt)).collect();
    attempts.sort_unstable();
    assert!(attempts.is_sorted_by(|a, b| a < b), "an attempt was settled twice");
    let (heard, all) = (heard.len(), ledger.verdicts());
    println!("{heard} of {all} verdicts were heard of, through {DEATHS} deaths");
}

#[test]
fn a_topic_with_only_acked_jobs_leaves_no_keys() {
    let counter = OpenShop::open();
    let fixture = fixture(&counter);
    let mut daemon = fixture.start();
    let store = fixture.store();
    let ledger = Ledger::new(store.now_ms(), &counter, |fate| fate.0.last() == Some(&"done"));
    ledger.push(&fixture);
    eventually("every attempt is settled", || daemon.count(is_verdict) >= ledger.verdicts());
    ledger.compare_with_log(&daemon);
    assert!(daemon.terminate().success());
    for topic in TOPICS {
        assert_eq!(store.left(topic), BTreeSet::new(), "{topic}");
    }
}
