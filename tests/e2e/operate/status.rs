//! The cost of attempts in the log and in `duebox stats`, and the status that a daemon publishes.

use std::time::{Duration, Instant};

use duebox_harness::eventually;
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_verdict, settled_as};
use crate::support::producer::push_many;
use crate::support::puppet::{PUPPET, puppet_job, push_jobs};

const TOPIC: &str = "work";

fn stats(fixture: &Fixture, words: &[&str]) -> Value {
    let words = [&["stats", "--json"], words].concat();
    serde_json::from_str(&fixture.duebox(&words)).unwrap()
}

#[test]
fn log_lines_show_the_cost_of_attempts_and_the_last_one_the_sums() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", "sandbox = { fuel = 1000000 }")]);
    let mut daemon = fixture.start();
    let payload = format!("l{}", "-".repeat(99));
    push_jobs(&fixture, TOPIC, &[puppet_job("a", &payload, "{}")]);
    let line = daemon.wait_for_line("its verdict", |line| settled_as(line, "done"));
    let number = |name: &str| line.number(name).unwrap_or_else(|| panic!("{}", line.text()));
    // The handler reads its hundred bytes and logs them; memory is one page.
    assert_eq!((number("bytes_in"), number("bytes_out")), (100, 100));
    assert_eq!((number("host_calls"), number("memory_peak_bytes")), (2, 65_536));
    assert!(number("fuel") > 0, "{}", line.text());
    let (cpu, wall) = (line.decimal("cpu_ms").unwrap(), line.decimal("wall_ms").unwrap());
    assert!(cpu > 0.0 && cpu <= wall, "{}", line.text());
    assert_eq!(line.number("log_lines_dropped"), None, "there is nothing to say of it");

    push_jobs(&fixture, TOPIC, &[puppet_job("b", "lN", r#"{"max_attempts":1}"#)]);
    daemon.wait_for_line("the other", |line| settled_as(line, "dead"));
    assert!(daemon.terminate().success());
    let sums = daemon.wait_for_line("the sums", |line| line.message() == "done");
    let number = |name: &str| sums.number(name).unwrap();
    assert_eq!((number("attempts"), number("failed"), number("memory_peak_bytes")), (2, 1, 65_536));
    let lines = daemon.lines();
    let of_each = |name: &str| -> i64 {
        lines.iter().filter(|line| is_verdict(line)).filter_map(|line| line.number(name)).sum()
    };
    for name in ["fuel", "host_calls", "bytes_in", "bytes_out"] {
        assert_eq!(number(name), of_each(name), "{name}");
    }
}

#[test]
fn an_attempt_shows_in_the_stats_within_seconds() {
    let fixture = Fixture::new();
    fixture.write("work.wasm", Handler::logs("ran").wasm());
    fixture.manifest("", &[topic(TOPIC, "work.wasm", "")]);
    let mut daemon = fixture.start();
    let reported_jobs = || stats(&fixture, &[])["topics"][0]["handler"]["total"]["jobs"].as_u64();
    eventually("the first report", || reported_jobs() == Some(0));
    push_many(&fixture, TOPIC, 1);
    daemon.wait_for_line("its verdict", |line| settled_as(line, "done"));
    let ended = Instant::now();
    eventually("the attempt is reported", || reported_jobs() == Some(1));
    // Without an attempt a report is renewed after ten seconds.
    assert!(ended.elapsed() < Duration::from_secs(5), "{:?}", ended.elapsed());
    assert!(daemon.terminate().success());
}

#[test]
fn stats_show_the_handlers_of_all_daemons_by_module() {
    let fixture = Fixture::new();
    let (good, bad) = (Handler::logs("good").wasm(), Handler::logs("bad").nacks().wasm());
    fixture.write("work.wasm", &good);
    let keys = "max_attempts = 1\nbreaker = { failures = 3, probe = \"1h\", on = [\"nack\"] }\nrollback = { min_jobs = 0 }\nconcurrency = 1";
    fixture.manifest("", &[topic(TOPIC, "work.wasm", keys), topic("idle", "work.wasm", "")]);
    assert!(fixture.duebox(&["stats"]).contains("no daemon runs"));
    let mut daemons = [fixture.start(), fixture.start()];
    push_many(&fixture, TOPIC, 20);
    eventually("both daemons publish their status and all jobs", || {
        let reported = stats(&fixture, &[]);
        reported["runners"].as_array().unwrap().len() == 2
            && reported["topics"][1]["handler"]["total"]["acked"] == 20
    });
    let idle = &stats(&fixture, &["idle"])["topics"][0]["handler"];
    assert_eq!((&idle["runners"], &idle["total"]["jobs"]), (&2.into(), &0.into()), "{idle}");
    let text = fixture.duebox(&["stats"]);
    assert!(text.contains(&digest(&good)) && text.contains("2 running daemons"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    fixture.write("work.wasm", &bad);
    for daemon in &daemons {
        daemon.wait_for_line("the bad one", |line| {
            line.message().starts_with("a new module") && line.has("topic", TOPIC)
        });
    }
    eventually("both breakers are open", || {
        push_many(&fixture, TOPIC, 20);
        stats(&fixture, &[TOPIC])["topics"][0]["handler"]["breakers_open"] == 2
    });
    let reported = stats(&fixture, &[TOPIC]);
    let modules = reported["topics"][0]["handler"]["modules"].as_object().unwrap();
    let module = |content: &[u8]| {
        let short = digest(content);
        modules.iter().find(|(digest, _)| digest.starts_with(&short)).unwrap().1
    };
    assert_eq!((&module(&good)["acked"], &module(&good)["failed"]), (&20.into(), &0.into()));
    assert!(module(&bad)["classes"]["nack"].as_u64() >= Some(6), "{reported}");
    let text = fixture.duebox(&["stats", TOPIC]);
    assert_eq!(text.matches("breaker open for").count(), 2, "{text}");
    assert!(text.contains("serves") && text.contains("served"), "{text}");

    // One daemon stops, and the other dies, so its entry expires.
    assert!(daemons[0].terminate().success());
    let left = stats(&fixture, &[])["runners"].as_array().unwrap().len();
    assert_eq!(left, 1, "the ended daemon is still listed");
    daemons[1].kill();
    let listed: Vec<String> =
        fixture.store().ask(cmd("ZRANGE").arg("duebox:runners").arg(0).arg(-1));
    let key = format!("duebox:runner:{}", listed[0]);
    let lapses_in: i64 = fixture.store().ask(cmd("PTTL").arg(&key));
    assert!((1..=30_000).contains(&lapses_in), "{lapses_in}");
    let _: i64 = fixture.store().ask(cmd("PEXPIRE").arg(&key).arg(1));
    eventually("it is forgotten", || fixture.duebox(&["stats"]).contains("no daemon runs"));
}

/// Whether `duebox stats` has a line about the topic with all these words.
fn is_reported(stats: &str, words: &[&str]) -> bool {
    let matches = |line: &str| line.starts_with("work: ") && words.iter().all(|w| line.contains(w));
    stats.lines().any(matches)
}

/// Whether the handler's statistics name this module as the current one.
fn serves(handler: &Value, module: &[u8]) -> bool {
    handler["digests"][0].as_str().is_some_and(|hex| hex.starts_with(&digest(module)))
}

/// Checks that a canary with a share of 50 % ran a part of `jobs`, and the main module the others.
fn check_canary(handler: &Value, canary: &[u8], jobs: u64) {
    let canaries = handler["canaries"].as_object().unwrap();
    let (whole, percent) = canaries.iter().next().unwrap();
    assert!(whole.starts_with(&digest(canary)) && *percent == 50.0, "{handler}");
    let jobs_of = |digest: &str| handler["modules"][digest]["jobs"].as_u64().unwrap();
    let (on_canary, on_main) = (jobs_of(whole), jobs_of(handler["digests"][0].as_str().unwrap()));
    assert!(on_canary > 0 && on_main > 0 && on_canary + on_main == jobs, "{handler}");
}

/// Checks that the statistics of a topic list this module as refused, and an earlier one as served last.
fn check_refused(stats: &str, broken: &str) {
    let is_listed = |line: &str| line.contains(broken) && line.contains("refused");
    assert!(stats.lines().any(is_listed), "{stats}");
    assert!(stats.contains("served last"), "{stats}");
}

#[test]
fn stats_show_the_state_of_modules() {
    let fixture = Fixture::new();
    let [good, better, canary] =
        ["good", "better", "canary"].map(|word| Handler::logs(word).wasm());
    fixture.write("work.wasm", &good);
    fixture.write("canary.wasm", &canary);
    let manifest = |keys: &str| {
        let keys = format!("rollback = {{ min_jobs = 0 }}\n{keys}");
        fixture.manifest("", &[topic(TOPIC, "work.wasm", &keys)]);
    };
    manifest(r#"canary = { handler = "canary.wasm", percent = 50 }"#);
    let _daemon = fixture.start();
    let handler = || stats(&fixture, &[TOPIC])["topics"][0]["handler"].clone();
    let text = || fixture.duebox(&["stats"]);
    let is_quiet = || !text().contains("work: ");
    let reported = |words: &[&str]| is_reported(&text(), words);

    // A canary with its own statistics.
    push_many(&fixture, TOPIC, 60);
    eventually("all jobs are in the statistics", || handler()["total"]["jobs"] == 60);
    check_canary(&handler(), &canary, 60);
    assert!(fixture.duebox(&["stats", TOPIC]).contains("canary 50%"));
    assert!(is_quiet(), "{}", text());

    // A refused module is shown until a valid one follows.
    fixture.write("work.wasm", "no module");
    let broken = digest(b"no module");
    eventually("the refusal", || {
        reported(&["handler", &broken, "refused at", "work.wasm is refused: "])
    });
    let now = handler();
    assert!(now["digests"][0].as_str().unwrap().starts_with(&digest(&good)), "{now}");
    fixture.write("work.wasm", &good);
    eventually("the restored file is accepted", is_quiet);
    fixture.write("work.wasm", &better);
    let serves = |module: &[u8]| serves(&handler(), module);
    eventually("the better one", || serves(&better));
    assert!(is_quiet(), "{}", text());
    check_refused(&fixture.duebox(&["stats", TOPIC]), &broken);

    // The refusal of a canary ends with the canary, and that of a pin with the pin.
    fixture.write("canary.wasm", "no canary");
    eventually("the canary's refusal", || {
        reported(&["canary", "refused at", "canary.wasm is refused"])
    });
    manifest("");
    eventually("no canary, no refusal", is_quiet);
    assert_eq!(handler()["canaries"], Value::Null);
    manifest(&format!("sha256 = \"{}\"", "0".repeat(64)));
    eventually("the pin's refusal", || reported(&["handler", "not the pinned one"]));
    manifest("");
    eventually("no pin, no refusal", is_quiet);

    fixture.duebox(&["rollback", TOPIC]);
    eventually("the rollback", || reported(&["handler", &digest(&better), "rolled back by hand"]));
    assert!(serves(&good));
    let withdrawn = handler()["withdrawn"][0].as_str().unwrap().to_owned();
    assert!(withdrawn.starts_with(&digest(&better)), "{withdrawn}");
}

#[test]
fn stats_show_a_refused_manifest_until_a_valid_one() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let good = topic(TOPIC, "work.wat", "");
    fixture.manifest("", std::slice::from_ref(&good));
    let _daemon = fixture.start();
    let refused = || stats(&fixture, &[])["runners"][0]["manifest_refused"].clone();
    let text = || {
        let text = fixture.duebox(&["stats", "--manifest", "good.toml"]);
        text.lines().find(|line| line.starts_with("the manifest is refused")).map(str::to_owned)
    };
    fixture.manifest_named("good.toml", "", std::slice::from_ref(&good));
    let reported = |words: &str| text().is_some_and(|line| line.contains(words));
    eventually("its status is published", || stats(&fixture, &[])["runners"][0].is_object());
    assert_eq!(text(), None);

    // With two problems, the first is shown with its line and the other is counted.
    fixture.manifest("", &[good.clone(), "concurency = 3\nttl = 7\n".to_owned()]);
    eventually("it is reported", || {
        reported("`concurency`") && reported("and 1 more") && reported("line ")
    });
    let look = || {
        let words = ["stats", "--json", "--manifest", "good.toml"];
        let reported: Value = serde_json::from_str(&fixture.duebox(&words)).unwrap();
        reported["runners"][0]["manifest_refused"].clone()
    };
    let first = look();
    assert_eq!(first["problems"], 2, "{first}");
    assert!(first["line"].as_u64().is_some_and(|line| line > 5), "{first}");

    // With another problem, it is still refused since the same time.
    fixture.manifest("", &[good.clone(), "ttr = 7\n".to_owned()]);
    eventually("the other problem", || reported("`ttr`"));
    assert_eq!((&look()["since_ms"], &look()["problems"]), (&first["since_ms"], &1.into()));

    fixture.manifest("", &[good]);
    eventually("the good one", || refused().is_null());
    assert_eq!(text(), None);
}

#[test]
fn a_hundred_idle_topics_publish_once_in_ten_seconds() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let topics: Vec<String> =
        (0..100).map(|n| topic(&format!("work-{n}"), "work.wat", "")).collect();
    fixture.manifest("", &topics);
    let _daemon = fixture.start();
    let store = fixture.store();
    let reported_at = || -> Option<u64> {
        let status: Value = serde_json::from_str(&fixture.duebox(&["stats", "--json"])).unwrap();
        status["runners"][0]["told_at_ms"].as_u64()
    };
    eventually("its status is published", || reported_at().is_some());
    let first = reported_at().unwrap();
    eventually("it has again", || reported_at().unwrap() > first);
    // Nothing changed, so the next report waited for its interval.
    let between = Duration::from_millis(reported_at().unwrap() - first);
    assert!(between >= Duration::from_secs(9), "published again after {between:?}");
    let listed: u64 = store.ask(cmd("ZCARD").arg("duebox:runners"));
    assert_eq!(listed, 1);
}

#[test]
fn a_daemon_publishes_its_address() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let reported = || stats(&fixture, &[])["runners"][0]["api"].as_str().map(str::to_owned);
    eventually("its status is published", || reported().is_some());
    assert_eq!(reported(), Some(crate::support::client::address(&daemon).to_string()));
}
