//! The Prometheus page is well formed, reports what happened, and has every metric that the dashboard and the
//! alerts query.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use duebox_harness::{Daemon, eventually, output_with};

use crate::support::client::{address, ask, get};
use crate::support::exposition::{Page, metrics};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::producer::push_many;
use crate::support::puppet::{PUPPET, puppet_job, push_jobs};

/// A daemon that has run jobs of every kind.
fn busy() -> (Fixture, Daemon, SocketAddr) {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = "max_attempts = 1\nsandbox = { fuel = 1000000 }";
    let traps = topic("traps", "traps.wat", "on = { trap = \"discard\" }");
    let canary = "canary = { handler = \"other.wasm\", percent = 10 }\n";
    fixture.write("traps.wat", hostile("trap_unreachable"));
    fixture.write("idle.wasm", Handler::logs("idle").wasm());
    fixture.write("other.wasm", Handler::logs("other").wasm());
    let pulled = "[topics.\"pulled\"]\n".to_owned();
    let topics =
        [topic("work", "puppet.wat", keys), topic("idle", "idle.wasm", canary), traps, pulled];
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let at = address(&daemon);
    (fixture, daemon, at)
}

#[test]
fn the_metrics_match_what_happened_and_are_well_formed() {
    let (fixture, _daemon, at) = busy();
    let fresh = metrics(at);
    assert_eq!(fresh.faults(), Vec::<String>::new());
    for class in ["nack", "trap", "timeout"] {
        let labels = [("topic", "work"), ("class", class)];
        let failures = fresh.all("duebox_jobs_settled_total", &labels);
        let failures: Vec<f64> = failures.map(|sample| sample.value).collect();
        // `retry` and `dead`: a first failure is an increase.
        assert_eq!(failures, [0.0, 0.0], "{class}");
    }
    push_jobs(&fixture, "work", &[puppet_job("a", "l-", "{}"), puppet_job("b", "lN", "{}")]);
    push_many(&fixture, "traps", 1);
    push_many(&fixture, "pulled", 7);
    let work = [("topic", "work")];
    // On a busy machine a job that does not start in time goes back, and is leased again.
    let released = |page: &Page, topic| {
        page.value("duebox_jobs_settled_total", &[("topic", topic), ("verdict", "release")])
    };
    eventually("all three are settled", || {
        let page = metrics(at);
        let went_back = released(&page, "work") + released(&page, "traps");
        page.value("duebox_jobs_settled_total", &[]) - went_back == 3.0
    });
    eventually("a page is a second old at most", || {
        let jobs = [("topic", "pulled"), ("state", "pending")];
        let ready = [("topic", "pulled"), ("state", "ready")];
        let page = metrics(at);
        page.value("duebox_queue_jobs", &jobs) + page.value("duebox_queue_jobs", &ready) == 7.0
    });
    let page = metrics(at);
    assert_eq!(page.faults(), Vec::<String>::new());
    page.check_buckets();
    let settled = |topic, verdict, class| {
        let labels = [("topic", topic), ("verdict", verdict), ("class", class)];
        page.value("duebox_jobs_settled_total", &labels)
    };
    assert_eq!(settled("work", "ack", ""), 1.0);
    assert_eq!(settled("work", "dead", "nack"), 1.0);
    assert_eq!(settled("traps", "discard", "trap"), 1.0);
    assert_eq!(page.value("duebox_jobs_leased_total", &work), 2.0 + released(&page, "work"));
    assert_eq!(page.value("duebox_job_run_seconds_count", &work), 2.0);
    assert_eq!(page.value("duebox_job_lateness_seconds_count", &work), 2.0);
    assert!(page.value("duebox_guest_fuel_total", &work) > 0.0);
    assert!(page.value("duebox_guest_cpu_seconds_total", &work) > 0.0);
    assert_eq!(page.value("duebox_guest_memory_peak_bytes", &work), 65_536.0);
    assert_eq!(page.all("duebox_module_info", &[("topic", "idle")]).count(), 2);
    assert_eq!(page.value("duebox_canary_ratio", &[("topic", "idle")]), 0.1);
    assert_eq!((page.value("duebox_slots", &[]), page.value("duebox_redis_up", &[])), (256.0, 1.0));
    assert!(page.value("duebox_redis_round_trip_seconds_count", &[("connection", "jobs")]) > 3.0);
    assert!(page.value("process_resident_memory_bytes", &[]) > 1e6);
}

#[test]
fn open_metrics_is_served_on_request() {
    let (_fixture, _daemon, at) = busy();
    let accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3";
    let answer = ask(at, "GET /metrics", &[("accept", accept)], b"");
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    let text = answer.text();
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE duebox_jobs_leased counter\n"));
    assert!(text.contains("# UNIT duebox_job_run_seconds seconds\n"), "{text}");
}

#[test]
fn dashboard_and_alerts_query_existing_metrics() {
    let (_fixture, _daemon, at) = busy();
    let known = metrics(at).names();
    let asked = |text: &str| -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = text.split(|c| !is_part(c));
        let is_metric = |word: &&str| word.starts_with("duebox_") || word.starts_with("process_");
        words.filter(is_metric).map(str::to_owned).collect()
    };
    let mut all = BTreeSet::new();
    for file in ["alerts.yml", "dashboard.json"] {
        let text = std::fs::read_to_string(example(file)).unwrap();
        let asked = asked(&text);
        assert!(asked.len() > 10, "{file} asks for {asked:?}");
        all.extend(asked.clone());
        // Redis reports a memory limit only if it has one, and disk errors only if it persists.
        let absent: Vec<_> = asked
            .difference(&known)
            .filter(|name| !name.starts_with("duebox_redis_memory_limit"))
            .collect();
        assert!(absent.is_empty(), "{file} asks for what is not there: {absent:?}");
    }
}

/// Type and labels of each metric in the rows of docs/reference/metrics.md.
fn reference() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = include_str!("../../../docs/reference/metrics.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let read = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = &cells[..] else { panic!("{row}") };
        let labels = labels.split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        let kind = if *kind == "info" { "gauge" } else { *kind };
        (name.trim_matches('`').to_owned(), (kind.to_owned(), labels))
    };
    rows.map(read).collect()
}

#[test]
fn the_reference_lists_every_metric_with_its_type_and_labels() {
    let (_fixture, _daemon, at) = busy();
    let (page, listed) = (metrics(at), reference());
    for (name, (_, kind)) in &page.families {
        let known = listed.get(name);
        let (listed_kind, listed_labels) =
            known.unwrap_or_else(|| panic!("docs/reference/metrics.md does not list {name}"));
        assert_eq!(kind, listed_kind, "{name}");
        let count = format!("{name}_count");
        for sample in page.all(name, &[]).chain(page.all(&count, &[])) {
            let labels: BTreeSet<String> = sample.labels.keys().cloned().collect();
            assert_eq!(&labels, listed_labels, "{name}");
        }
    }
    // Redis reports a memory limit only if it has one.
    let absent = |name: &&String| {
        !page.families.contains_key(*name) && *name != "duebox_redis_memory_limit_bytes"
    };
    let absent: Vec<&String> = listed.keys().filter(absent).collect();
    assert!(absent.is_empty(), "docs/reference/metrics.md lists what is not served: {absent:?}");
}

/// Checks with promtool, if it is installed.
#[test]
fn promtool_accepts_the_metrics() {
    let run = |words: &[&str], input: &[u8]| {
        let output = output_with(Command::new("promtool").args(words), input).ok()?;
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).into_owned();
        assert!(output.status.success(), "promtool {words:?}: {printed}");
        Some(printed)
    };
    let (_fixture, _daemon, at) = busy();
    let Some(printed) = run(&["check", "metrics"], get(at, "/metrics").text().as_bytes()) else {
        println!("promtool is not installed: only our own rules were applied");
        return;
    };
    assert_eq!(printed, "");
    run(&["check", "rules", example("alerts.yml").to_str().unwrap()], b"");
    run(&["check", "config", example("prometheus.yml").to_str().unwrap()], b"");
}

fn example(file: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.parent().unwrap().join("examples/observability").join(file)
}

#[test]
fn verdicts_of_consumers_are_counted_by_class() {
    let (_fixture, _daemon, at) =
        crate::support::client::fixture("[topics.mail]\nmax_attempts = 1\n");
    let settle = |id: &str, verdict: &str| {
        let job = serde_json::json!({ "id": id }).to_string();
        assert_eq!(crate::support::client::post(at, "/v1/topics/mail/jobs", &job).status, 201);
        let leased = crate::support::client::post(at, "/v1/topics/mail/leases", "").json();
        let token = serde_json::json!({ "token": leased["jobs"][0]["token"] }).to_string();
        let path = format!("/v1/topics/mail/jobs/{id}/{verdict}");
        let first = crate::support::client::post(at, &path, &token).status;
        // A second verdict is lost and not counted.
        let second = crate::support::client::post(at, &path, &token).status;
        assert_eq!((first, second), (200, 409), "{verdict}");
    };
    for (id, verdict) in [("a", "ack"), ("b", "nack"), ("c", "drop"), ("d", "ack")] {
        settle(id, verdict);
    }
    let page = metrics(at);
    assert_eq!(page.faults(), Vec::<String>::new());
    let settled = |verdict, class| {
        let labels = [("topic", "mail"), ("verdict", verdict), ("class", class)];
        page.value("duebox_jobs_settled_total", &labels)
    };
    assert_eq!(
        (settled("ack", ""), settled("dead", "nack"), settled("dead", "drop")),
        (2.0, 1.0, 1.0)
    );
    assert_eq!(page.value("duebox_jobs_settled_total", &[]), 4.0);
}
