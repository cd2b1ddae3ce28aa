//! Each handler of the repository that can fail does so, again and again, and each recorded failure replays to the same end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use duebox_harness::LogLine;
use serde_json::Value;

use super::{RECORDED, compile, duebox, is_recorded, json};
use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::is_handler_line;
use crate::support::shop::OpenShop;

/// Scripts for the handlers that run one; each ends with a failure. Other handlers fail by their payload.
fn scripts(family: &str, origin: &str) -> Vec<String> {
    let own = |scripts: &[&str]| scripts.iter().map(|script| (*script).to_owned()).collect();
    match family {
        "echo" => own(&[
            "times; random; meta; config region; nack not now",
            "random; payload; drop never",
            "times; panic out of order",
            "random; times; error it is broken",
            "syntax; headers; retry 500 later",
        ]),
        "relay" => own(&["push topic=log|payload=$; nack after a push", "panic in between"]),
        "reach" => {
            let send = format!("send GET {origin}/nothing/here");
            vec![
                "get a; set a 1; get a; add n 5; nack stored".to_owned(),
                format!("{send}; body; nack answered"),
                format!("add n 1; {send}; unchanged a 2; delete a; drop the end"),
                "send GET http://127.0.0.1:1/; nack unreachable".to_owned(),
            ]
        }
        "std" => vec![
            format!("timeout 5s; get {origin}/orders/7; end with an unknown step"),
            format!("post {origin}/nothing text; get http://127.0.0.1:1/; end"),
            "read /etc/hostname; list /; write /tmp/a b; end".to_owned(),
        ],
        _ => vec![String::new()],
    }
}

/// A handler that is tried: its topic, its file, and the kind of its jobs.
struct Tried {
    topic: String,
    file: String,
    family: &'static str,
}

/// The handlers of `handlers/`, with the kind of their jobs.
const HANDLERS: [(&str, &str); 28] = [
    ("echo-rust", "echo"),
    ("echo-go", "echo"),
    ("echo-as", "echo"),
    ("echo-c", "echo"),
    ("echo-js", "echo"),
    ("echo-py", "echo"),
    ("relay-rust", "relay"),
    ("relay-go", "relay"),
    ("relay-as", "relay"),
    ("relay-c", "relay"),
    ("relay-js", "relay"),
    ("relay-py", "relay"),
    ("reach-rust", "reach"),
    ("reach-go", "reach"),
    ("reach-as", "reach"),
    ("reach-c", "reach"),
    ("reach-js", "reach"),
    ("reach-py", "reach"),
    ("order-close", "order"),
    ("shop-activation", "shop"),
    ("payment-poll", "payment"),
    ("webhook", "order"),
    ("witness", "witness"),
    ("std-go", "std"),
    ("json-js", "id"),
    ("json-py", "id"),
    ("post-js", "order"),
    ("post-py", "order"),
];

/// These ack without looking at the job, so no job of theirs can die.
const NEVER_FAIL: [&str; 5] = ["noop-rust", "noop-go", "noop-as", "noop-js", "noop-py"];

/// The handlers of `examples/` that are bound as they are there, with the kind of their jobs.
const EXAMPLES: [(&str, &str); 7] = [
    ("python/handlers/order_close.py", "order"),
    ("python/handlers/payment_poll.py", "payment"),
    ("typescript/handlers/order-close.ts", "order"),
    ("typescript/handlers/payment-poll.ts", "payment"),
    ("flows/place.wat", "place"),
    ("flows/note.wat", "note"),
    ("cluster/note.wat", "note"),
];

/// Failures of each handler: 1,050 in all.
const EACH: usize = 30;

/// A folder of the repository.
fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).canonicalize().unwrap()
}

/// The file of a handler: its source if it is served as source, or else its module.
fn file_of(handler: &str) -> String {
    let source = match handler.rsplit('-').next() {
        Some("js") => "index.ts",
        Some("py") => "main.py",
        _ => return built(handler),
    };
    repository("handlers").join(handler).join(source).display().to_string()
}

fn all() -> Vec<Tried> {
    let handlers = HANDLERS.map(|(name, family)| Tried {
        topic: name.to_owned(),
        file: file_of(name),
        family,
    });
    let examples = EXAMPLES.map(|(path, family)| Tried {
        topic: path.replace(['/', '_'], "-"),
        file: repository("examples").join(path).display().to_string(),
        family,
    });
    handlers.into_iter().chain(examples).collect()
}

/// A job that fails; with another number another job.
fn payload(family: &str, number: usize) -> String {
    match family {
        "shop" => format!(
            r#"{{"shop":{{"id":"s-{number}","name":"Bramble","locale":"de","status":"open","goods":0,"opened_at":"2026-01-14T09:00:00Z","owner":{{"name":"Ada","email":"ada@bramble.example"}}}}}}"#
        ),
        "payment" => format!(r#"{{"payment":{{"id":"none-{number}"}}}}"#),
        "id" => format!(r#"{{"id":{}}}"#, 1_000 + number),
        // It does not fit into the one page of this handler's memory.
        "note" => format!("{number}{}", "x".repeat(70_000)),
        _ => format!(r#"{{"order":{}}}"#, 1_000 + number),
    }
}

/// The topics of all handlers, with what they may use.
fn topics(all: &[Tried], origin: &str) -> Vec<String> {
    let topic_of = |tried: &Tried| {
        let (shop, url) = match tried.family {
            // This one sends a message to any shop that exists.
            "shop" => (format!("{origin}/nothing"), format!("{origin}/nothing")),
            // This one does what the answer says, which has to be a text.
            "witness" => (origin.to_owned(), format!("{origin}/orders/7/close")),
            _ => (origin.to_owned(), format!("{origin}/nothing")),
        };
        // This one traps if its follow-ups are refused.
        let recorded = match tried.family {
            "place" => RECORDED.replace("[\"*\"]", "[\"other\"]"),
            _ => RECORDED.to_owned(),
        };
        let grants = format!(
            "sandbox.http = [\"{origin}\", \"http://127.0.0.1:1\"]\nsandbox.http_private = [\"127.0.0.1\"]\n\
             sandbox.config = {{ shop = \"{shop}\", url = \"{url}\", region = \"eu\" }}\n"
        );
        topic(&tried.topic, &tried.file, &format!("{recorded}{grants}"))
    };
    all.iter().map(topic_of).collect()
}

/// Pushes jobs that fail, each with a payload of its own.
fn push_failures(fixture: &Fixture, all: &[Tried], origin: &str) {
    for Tried { topic, family, .. } in all {
        let scripts = scripts(family, origin);
        for (number, script) in scripts.iter().enumerate() {
            let jobs = (EACH - number).div_ceil(scripts.len());
            let line = |job| payload(family, number * EACH + job) + "\n";
            let file = fixture.write("jobs.ndjson", (0..jobs).map(line).collect::<String>());
            let (file, header) = (format!("@{}", file.display()), format!("script={script}"));
            let id = format!("s{number}");
            fixture.duebox(&["push", topic, &file, "--lines", "--id", &id, "--header", &header]);
        }
    }
}

/// What a replay logged, as a daemon writes it.
fn log_of(report: &Value) -> Vec<String> {
    let lines = report["log"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap().split_once(": ").unwrap().1.to_owned()).collect()
}

/// What handlers logged, by topic and job. An attempt that found no memory is released and runs again: only the last one counts.
fn logged_by_last_attempts(lines: &[LogLine]) -> BTreeMap<(String, String), Vec<String>> {
    let mut logged = BTreeMap::<_, Vec<String>>::new();
    for line in lines {
        let job = (line.str("topic").to_owned(), line.str("job_id").to_owned());
        if is_handler_line(line) {
            logged.entry(job).or_default().push(line.message().to_owned());
        } else if line.message() == "job released" {
            logged.remove(&job);
        }
    }
    logged
}

/// Every handler of the repository is tried, or is listed with the reason why it is not.
#[test]
fn no_handler_of_the_repository_is_left_out() {
    let known: BTreeSet<&str> = HANDLERS.iter().map(|(name, _)| *name).chain(NEVER_FAIL).collect();
    let sources = ["Cargo.toml", "go.mod", "asconfig.json", "handler.c", "index.ts", "main.py"];
    for entry in fs::read_dir(repository("handlers")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_handler = sources.iter().any(|source| entry.path().join(source).is_file());
        assert!(!is_handler || known.contains(&*name), "{name} is not replayed");
    }
    for entry in fs::read_dir(repository("examples")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let manifest = repository("examples").join(&folder).join("duebox.toml");
        let text = fs::read_to_string(manifest).unwrap_or_default();
        for line in text.lines() {
            let Some(rest) = line.trim().strip_prefix("handler = \"") else { continue };
            let file = rest.split('"').next().unwrap();
            let path = format!("{folder}/{file}");
            let is_tried = EXAMPLES.iter().any(|(known, _)| *known == path);
            assert!(is_tried || file.ends_with(".wasm"), "{path} is not replayed");
        }
    }
}

#[test]
fn a_thousand_failures_of_all_handlers_replay_to_identical_ends() {
    let fixture = Fixture::new();
    let shop = OpenShop::open();
    let (origin, all) = (shop.shop.origin(), all());
    // All jobs are due at once and have too little memory: some may be released and run twice.
    fixture.manifest("memory = \"150MiB\"\n", &topics(&all, &origin));
    compile(&fixture);
    let mut daemon = fixture.start();
    daemon.signal("STOP");
    push_failures(&fixture, &all, &origin);
    daemon.signal("CONT");
    for tried in &all {
        is_recorded(&fixture, &tried.topic, EACH);
    }
    // Nothing that a replay could ask is there any more, and the log is complete.
    drop(shop);
    assert!(daemon.terminate().success());
    let daemon_lines = daemon.lines();
    let mut logged = logged_by_last_attempts(&daemon_lines);
    let of_job = |(topic, id): &(String, String)| {
        let is_of = |line: &&LogLine| line.has("topic", topic) && line.has("job_id", id);
        daemon_lines.iter().filter(is_of).map(|line| line.text().to_owned()).collect::<Vec<_>>()
    };
    let (mut replayed, mut kinds, mut lines) = (BTreeSet::new(), BTreeSet::new(), 0);
    for Tried { topic, .. } in &all {
        let began = Instant::now();
        let output = duebox(&fixture, &["replay", topic, "--last", "1000", "--json"]);
        let printed = json(&output);
        let (summary, reports) = printed.split_last().unwrap();
        for report in reports {
            assert_eq!(report["same"], true, "{topic}: {report:#}");
            assert!(report["recorded"]["fuel"].as_u64() > Some(0), "{topic}: {report:#}");
            assert_eq!(report["recorded"], report["now"]);
            kinds.insert((topic.clone(), report["recorded"].to_string()));
            let job = (topic.clone(), report["id"].as_str().unwrap().to_owned());
            let (log, in_daemon) = (log_of(report), logged.remove(&job).unwrap_or_default());
            assert_eq!(log, in_daemon, "{job:?}, of which the daemon logged {:#?}", of_job(&job));
            lines += log.len();
            assert!(replayed.insert(job), "{topic}: {report:#}");
        }
        assert_eq!(summary["same"], EACH, "{topic}: {summary}");
        assert!(output.status.success());
        println!("{topic}: {EACH} in {:.2} s", began.elapsed().as_secs_f64());
    }
    assert_eq!(replayed.len(), 1_050);
    println!(
        "{} failures of {} handlers with {} different ends and {lines} lines",
        replayed.len(),
        all.len(),
        kinds.len()
    );
}
