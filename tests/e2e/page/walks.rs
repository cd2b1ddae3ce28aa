//! The four walks of docs/guide/page.md: an incident happens, the page is opened, and an operator who only reads the
//! page finds the topic, the time, the class, the reason and the module, and repairs it. Screenshots are written to
//! `target/page`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duebox_harness::{Daemon, Topology, eventually};
use serde_json::{Value, json};

use super::browser::Browser;
use super::in_browser::{is_sound, keep_all, opened};
use crate::support::client::{address, get, post};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;

/// One walk, from the moment in which the page is opened. An operator has two minutes; the test prints how long its own
/// clicks took.
struct Walk(&'static str, Instant);

impl Walk {
    fn begin(name: &'static str) -> Self {
        Self(name, Instant::now())
    }

    fn end(self) {
        let took = self.1.elapsed();
        println!("walk {}: {:.1} s", self.0, took.as_secs_f64());
        assert!(took < Duration::from_secs(120), "{}: {took:?}", self.0);
    }
}

/// Unix ms by this machine's clock, which the daemon and the browser have too.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// The moment that the page names in an element: the exact time of a relative one.
fn moment(browser: &Browser, selector: &str) -> u64 {
    let script = format!("return document.querySelector({})?.atMs ?? 0", json!(selector));
    browser.run(&script).as_f64().unwrap() as u64
}

/// Checks that the page says since when it has been wrong: after `began`, in steps of some seconds.
#[track_caller]
fn since(browser: &Browser, selector: &str, began: u64) {
    let shown = moment(browser, selector);
    assert!(shown + 6_000 > began && shown <= now_ms(), "{selector}: {shown} is not after {began}");
}

/// The longest run that the log of a daemon names, in ms.
fn longest_run(daemon: &Daemon) -> f64 {
    let lines = daemon.lines();
    lines.iter().filter_map(|line| line.decimal("wall_ms")).fold(0.0, f64::max)
}

/// The longest run that the chart names, in ms.
fn shown_run(browser: &Browser) -> f64 {
    let script = "const said = document.querySelector('#plot-ran svg')?.ariaLabel ?? '';\n\
        const times = [...said.matchAll(/at most ([\\d.]+) (ms|s)/g)];\n\
        return Math.max(0, ...times.map(([, time, unit]) => time * (unit === 's' ? 1000 : 1)))";
    browser.run(script).as_f64().unwrap()
}

/// The time in the column *Since* of the first cause.
const SINCE: &str = "#causes tbody tr [data-label=Since] time";

/// Pushes jobs `1` to `jobs` with a header `customer`.
fn push(at: SocketAddr, topic: &str, jobs: usize, customer: impl Fn(usize) -> &'static str) {
    let job = |n: usize| json!({ "id": n.to_string(), "payload": { "order": n }, "options": { "headers": { "customer": customer(n) } } });
    let jobs: Vec<Value> = (1..=jobs).map(job).collect();
    let answer = post(at, &format!("/v1/topics/{topic}/jobs"), &json!(jobs).to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Waits until so many jobs of a topic are dead.
fn dead(at: SocketAddr, topic: &str, jobs: u64) {
    eventually(&format!("{jobs} jobs of {topic} are dead"), || {
        let state = get(at, &format!("/v1/topics/{topic}")).json();
        state["dead"] == jobs && state["ready"] == 0 && state["unack"] == 0
    });
}

/// A row of the causes that has all of these texts.
fn cause(browser: &Browser, texts: &[&str]) {
    let script = format!(
        "[...document.querySelectorAll('#causes tbody tr')].some((row) => \
         {}.every((text) => row.textContent.includes(text)))",
        json!(texts)
    );
    browser.wait(&format!("a cause says {texts:?}"), &script);
}

/// Requeues all dead jobs of the topic that is open.
fn requeue_all(browser: &Browser) {
    browser.click("#requeue-all");
    browser.click("#yes");
    browser.reads("#toasts", "requeued");
    browser.reads("#states [data-state=dead] b", "0");
}

#[test]
fn a_handler_that_fails_for_one_customer_is_found_by_the_header_of_its_last_job() {
    let fixture = Fixture::new();
    let source = |address: &str| {
        format!(
            "import {{ job }} from 'duebox';\n\
             const addresses = {{ acme: {address}, bolt: 'Main St 1' }};\n\
             export default function () {{\n  const to = addresses[job.headers.customer];\n  \
             if (!to) throw new Error(`no address for customer ${{job.headers.customer}}`);\n}}\n"
        )
    };
    fixture.write("send.ts", source("''"));
    let quiet = (0..12).map(|n| format!("[topics.\"report.{n}\"]\n")).collect::<String>();
    fixture.manifest("", &[topic("invoice.send", "send.ts", "max_attempts = 1"), quiet]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let began = now_ms();
    push(at, "invoice.send", 40, |n| if n % 8 == 0 { "acme" } else { "bolt" });
    dead(at, "invoice.send", 5);
    // The page is opened after it happened.
    let walk = Walk::begin("one customer");
    let browser = opened(at, "");
    cause(&browser, &["invoice.send", "nack", "no address for customer acme"]);
    since(&browser, SINCE, began);
    browser.reads("#topics [data-topic='invoice.send'] .failed", "5 · 13 %");
    browser.reads("#fold", "12 idle topics");
    keep_all(&browser, "walk-customer-topics");
    browser.click("#causes tbody tr[data-topic='invoice.send'] a.id");
    browser.reads("#headers", "acme");
    browser.reads("#timeline", "Attempt 1: nack");
    browser.reads("#reason", "no address for customer acme");
    keep_all(&browser, "walk-customer-job");
    // The link can be sent: another window shows the same.
    let link = browser.run("return location.hash").as_str().unwrap().to_owned();
    assert!(link.starts_with("#/topics/invoice.send/jobs/"), "{link}");
    fixture.write("send.ts", source("'High St 2'"));
    browser.click(".back");
    browser.wait("the fix serves", "document.querySelectorAll('#history li.good').length === 2");
    requeue_all(&browser);
    walk.end();
    is_sound(&browser);
}

/// An HTTP server whose responses take a second while it is slow.
struct SlowApi {
    at: SocketAddr,
    is_slow: Arc<AtomicBool>,
}

impl SlowApi {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, is_slow) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
        let slow = Arc::clone(&is_slow);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(mut stream), slow) = (stream, Arc::clone(&slow)) else { continue };
                std::thread::spawn(move || {
                    let mut head = [0; 2_048];
                    while stream.read(&mut head).is_ok_and(|read| read > 0) {
                        if slow.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_secs(1));
                        }
                        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        if stream.write_all(response).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { at, is_slow }
    }
}

#[test]
fn a_slow_api_is_seen_as_run_time_and_timeouts_and_held_back_until_it_recovers() {
    let (fixture, api) = (Fixture::new(), SlowApi::start());
    let source = format!(
        "export default async function () {{\n  const response = await fetch('http://{}/capture');\n  \
         if (!response.ok) throw new Error(`HTTP ${{response.status}}`);\n}}\n",
        api.at
    );
    fixture.write("capture.ts", source);
    let keys = format!(
        "max_attempts = 1\nttr = \"300ms\"\nsandbox = {{ http = [\"http://{}\"], http_private = [\"127.0.0.1\"] }}",
        api.at
    );
    fixture.manifest("", &[topic("payment.capture", "capture.ts", &keys)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let began = now_ms();
    push(at, "payment.capture", 6, |_| "acme");
    dead(at, "payment.capture", 6);
    let walk = Walk::begin("slow API");
    let browser = opened(at, "");
    cause(&browser, &["payment.capture", "timeout"]);
    since(&browser, SINCE, began);
    browser.reads("#topics [data-topic='payment.capture'] .failed", "6 · 100 %");
    browser.click("a[href='#/topics/payment.capture']");
    browser.reads("#plot-failures .legend", "timeout");
    // All of them ran until their ttr. A quantile may be as long as the bound of the bucket of the longest run.
    eventually("the run time is that of the ttr", || {
        let longest = longest_run(&daemon);
        let bound = [500.0, 1_000.0, 5_000.0].into_iter().find(|bound| longest <= *bound);
        bound.is_some_and(|bound| (250.0..=bound).contains(&shown_run(&browser)))
    });
    keep_all(&browser, "walk-slow-api");
    // Nothing more runs into it.
    browser.click("#pause");
    browser.click("#yes");
    browser.reads(".badge", "paused");
    api.is_slow.store(false, Ordering::Relaxed);
    browser.click("#resume");
    requeue_all(&browser);
    browser.reads("#attempts", "done");
    walk.end();
    is_sound(&browser);
}

#[test]
fn a_stuck_redis_is_named_and_the_charts_show_since_when() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("done").wat());
    fixture.manifest("", &[topic("order.close", "work.wat", "")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    push(at, "order.close", 20, |_| "acme");
    let browser = opened(at, "#/redis");
    browser.reads("#redis-facts", "Memory of data");
    // Of a cluster, one server, which may have no key of the topic.
    let command = match Topology::of_run() {
        Topology::Single => "evalsha",
        Topology::Cluster => "info",
    };
    browser.reads("#redis-commands", command);
    keep_all(&browser, "redis");
    drop(browser);
    // On a busy machine a round trip may have been slow: the page would count its step as a part of the outage.
    eventually("Redis has answered at once in this step and the two before", || {
        let history = get(at, "/v1/history?span=10m").json();
        let last = |name: &str| history[name].as_array().unwrap().iter().rev().take(3).cloned();
        last("redis_away").all(|away| away == 0)
            && last("redis_ms").all(|ms| ms.as_f64().is_none_or(|ms| ms < 1_000.0))
    });
    let began = now_ms();
    fixture.redis.pause();
    // The daemon has noticed it when somebody opens the page.
    eventually("an outage is recorded", || {
        let trips = get(at, "/v1/history?span=1m").json()["redis_ms"].clone();
        trips.as_array().into_iter().flatten().any(|ms| ms.as_f64() >= Some(1_000.0))
    });
    let walk = Walk::begin("stuck Redis");
    let browser = opened(at, "");
    browser.reads("#banner", "Redis");
    browser.reads("#live", "Redis is away");
    browser.click("#views a[href='#/redis']");
    browser.reads("#redis-outage", "has not answered since");
    since(&browser, "#redis-outage time", began);
    let long = "/at most ([1-9]\\d*\\.?\\d* s|\\d+m)/.test(document.querySelector('#plot-redis svg').ariaLabel)";
    browser.wait("the round trip is seconds long", long);
    keep_all(&browser, "walk-stuck-redis");
    fixture.redis.resume();
    browser.is_gone("#banner");
    browser.reads("#redis-outage", "did not answer from");
    // The past stays visible.
    browser.wait("it is still shown", long);
    browser.keep("walk-stuck-redis-after-desk-light");
    push(at, "order.close", 20, |_| "bolt");
    browser.click("#views a");
    browser.wait(
        "jobs run again",
        "/acked: now/.test(document.querySelector('#plot-throughput svg').ariaLabel)",
    );
    walk.end();
}

#[test]
fn a_bad_deploy_is_told_by_its_module_and_rolled_back() {
    let fixture = Fixture::new();
    fixture.write("close.wat", Handler::logs("closed").wat());
    let keys = "max_attempts = 1";
    fixture.manifest("", &[topic("order.close", "close.wat", keys), "[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let digest =
        || get(at, "/v1/topics/order.close").json()["digests"][0].as_str().unwrap().to_owned();
    let good = digest();
    push(at, "order.close", 30, |_| "acme");
    eventually("they are done", || {
        let state = get(at, "/v1/topics/order.close").json();
        state["recent"]["attempts"] == 30
    });
    fixture.write("close.wat", Handler::logs("broken").nacks().wat());
    eventually("the bad module serves", || digest() != good);
    let bad = digest();
    let began = now_ms();
    push(at, "order.close", 6, |_| "acme");
    dead(at, "order.close", 6);
    let walk = Walk::begin("bad deploy");
    let browser = opened(at, "");
    cause(&browser, &["order.close", "nack", &bad[..12]]);
    since(&browser, SINCE, began);
    browser.reads("#topics [data-topic='order.close'] .failed", "6");
    browser.click("#trouble");
    browser.reads("#shown", "1 of 2");
    browser.click("a[href='#/topics/order.close']");
    // The module has served since shortly before the first failure.
    browser.reads("#history li:first-child", &bad[..12]);
    browser.reads("#handler tbody tr", &good[..12]);
    keep_all(&browser, "walk-bad-deploy");
    browser.click("#rollback");
    browser.reads("dialog", &good[..12]);
    browser.click("#yes");
    browser.reads("#handler tbody tr .badge", "rolled back");
    requeue_all(&browser);
    browser.reads("#attempts", "done");
    walk.end();
    is_sound(&browser);
}
