//! Traces, as a collector gets them: one from the push to the last verdict, through a retry and a follow-up
//! job, with what the handlers called; and nothing where nobody wants them.

use std::net::SocketAddr;

use duebox_harness::{Daemon, eventually};

use crate::support::client::{address, ask, get};
use crate::support::collector::{Collector, Seen};
use crate::support::exposition::Page;
use crate::support::fixture::{Ground, built, topic};
use crate::support::log::settled_as;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const JSON: (&str, &str) = ("content-type", "application/json");

/// `order` pushes follow-ups to `ask`, whose jobs ask the collector's own server; traces go to `otlp`.
fn ground(collector: &Collector, otlp: &str) -> Ground {
    let ground = Ground::new();
    manifest(&ground, collector, otlp);
    ground
}

fn manifest(ground: &Ground, collector: &Collector, otlp: &str) {
    let grants = format!(
        "backoff = \"10ms\"\nsandbox = {{ http = [\"{}\"], http_private = [\"127.0.0.1\"], kv = true }}",
        collector.origin()
    );
    let topics = [
        topic("order", &built("relay-rust"), "sandbox = { push = [\"ask\"] }"),
        topic("ask", &built("reach-rust"), &grants),
    ];
    ground.manifest(&format!("otlp = \"{otlp}\""), &topics);
}

/// Pushes a job over HTTP whose handler follows this script.
fn push(at: SocketAddr, topic: &str, id: &str, script: &str, headers: &[(&str, &str)]) {
    let job = serde_json::json!({ "id": id, "options": { "headers": { "script": script } } });
    let headers = [&[JSON], headers].concat();
    let line = format!("POST /v1/topics/{topic}/jobs");
    let pushed = ask(at, &line, &headers, job.to_string().as_bytes());
    assert_eq!(pushed.status, 201, "{pushed:?}");
}

fn wait_until_done(daemon: &Daemon, id: &str) {
    daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id));
}

/// The only span of this name.
fn one(collector: &Collector, name: &str) -> Seen {
    let found = collector.spans(name);
    assert_eq!(found.len(), 1, "{name}: {:#?}", collector.all());
    found[0].clone()
}

fn counted(at: SocketAddr, outcome: &str) -> f64 {
    Page::read(get(at, "/metrics").text())
        .value("duebox_trace_spans_total", &[("outcome", outcome)])
}

#[test]
fn one_trace_leads_from_the_push_through_a_retry_and_a_follow_up_to_the_ack() {
    let collector = Collector::start();
    let ground = ground(&collector, &collector.origin());
    let daemon = ground.start();
    let at = address(&daemon);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str()), ("tracestate", "shop=1")];
    let child = format!("h.script=must GET {}/drops", collector.origin());
    push(at, "order", "a", &format!("must topic=ask|id=kid|{child}"), &headers);
    wait_until_done(&daemon, "kid");
    let script = format!("add hits 1; send GET {}/work; verdict", collector.origin());
    push(at, "ask", "own", &script, &[]);
    wait_until_done(&daemon, "own");
    eventually("all spans have come", || collector.spans("process ask").len() == 3);
    let (order, ordered) = (one(&collector, "push order"), one(&collector, "process order"));
    assert_eq!((order.trace.as_str(), order.parent.as_str(), order.kind), (TRACE, PARENT, 4));
    assert_eq!((&ordered.parent, ordered.kind), (&order.id, 5));
    assert_eq!(ordered.attribute("messaging.system"), "duebox");
    assert_eq!(ordered.attribute("messaging.destination.name"), "order");
    assert_eq!(ordered.attribute("messaging.message.id"), "a");
    assert_eq!(ordered.attribute("duebox.verdict"), "ack");
    assert_eq!(ordered.attribute("duebox.handler.digest").len(), 64);
    assert!(order.ns.0 <= order.ns.1 && ordered.ns.0 < ordered.ns.1, "{ordered:?}");
    // The follow-up is a step of the same trace.
    let asks = collector.spans("push ask");
    let asked: Vec<&Seen> = asks.iter().filter(|span| span.trace == TRACE).collect();
    assert!(asked.len() == 1 && asked[0].parent == ordered.id && asked[0].kind == 4, "{asked:?}");
    let processed = collector.spans("process ask");
    let kid: Vec<&Seen> = processed.iter().filter(|span| span.trace == TRACE).collect();
    let verdicts: Vec<&str> = kid.iter().map(|span| span.attribute("duebox.verdict")).collect();
    assert_eq!(verdicts, ["nack", "ack"]);
    assert!(kid.iter().all(|span| span.parent == asked[0].id && span.state == "shop=1"), "{kid:?}");
    // What the handler sent is a step below its attempt, and says so to the server.
    let requests = collector.spans("GET");
    for (attempt, told) in kid.iter().zip(collector.asked()) {
        let request = requests.iter().find(|span| span.parent == attempt.id).unwrap();
        assert_eq!((request.trace.as_str(), request.kind), (TRACE, 3));
        assert_eq!(request.is_error, attempt.is_error);
        assert_eq!(request.attribute("server.address"), "127.0.0.1");
        assert_eq!(told.path, "/drops");
        assert_eq!(told.headers["traceparent"], format!("00-{TRACE}-{}-01", request.id));
        assert_eq!(told.headers["tracestate"], "shop=1");
    }
    // A push without a place begins a trace of its own.
    let own = asks.iter().find(|span| span.trace != TRACE).unwrap();
    assert_eq!((own.parent.as_str(), own.attribute("messaging.message.id")), ("", "own"));
    let counted = one(&collector, "kv_add");
    let attempt = processed.iter().find(|span| span.trace == own.trace).unwrap();
    assert_eq!((&counted.parent, &attempt.parent), (&attempt.id, &own.id));
    assert!(collector.services().iter().all(|name| name == "duebox"));
}

#[test]
fn each_attempt_is_a_step_below_the_push_and_a_failed_one_says_why() {
    let collector = Collector::start();
    let ground = ground(&collector, &collector.origin());
    let daemon = ground.start();
    let at = address(&daemon);
    let script = format!("send GET {}/fails; verdict", collector.origin());
    push(at, "ask", "a", &script, &[]);
    wait_until_done(&daemon, "a");
    eventually("both attempts have come", || collector.spans("process ask").len() == 2);
    let push = one(&collector, "push ask");
    let attempts = collector.spans("process ask");
    let told = |span: &Seen| {
        let of = |name: &str| span.attribute(name).to_owned();
        (of("duebox.attempt"), of("duebox.verdict"), of("duebox.settled"), of("duebox.class"))
    };
    let words = |words: [&str; 4]| {
        (words[0].to_owned(), words[1].to_owned(), words[2].to_owned(), words[3].to_owned())
    };
    assert_eq!(told(&attempts[0]), words(["1", "nack", "retry", "nack"]));
    assert_eq!(told(&attempts[1]), words(["2", "ack", "done", ""]));
    let answers: Vec<String> = collector
        .spans("GET")
        .iter()
        .map(|span| span.attribute("http.response.status_code").to_owned())
        .collect();
    assert_eq!(answers, ["503", "200"]);
    assert!(attempts[0].is_error && !attempts[1].is_error);
    for attempt in &attempts {
        assert_eq!((&attempt.trace, &attempt.parent), (&push.trace, &push.id));
    }
    assert!(attempts[0].ns.1 <= attempts[1].ns.0, "{attempts:#?}");
}

#[test]
fn what_is_not_to_be_recorded_is_passed_on_and_nothing_more() {
    let collector = Collector::start();
    let ground = ground(&collector, &collector.origin());
    let daemon = ground.start();
    let at = address(&daemon);
    let parent = format!("00-{TRACE}-{PARENT}-00");
    let script = format!("must GET {}/work", collector.origin());
    push(at, "ask", "unsampled", &script, &[("traceparent", &parent)]);
    wait_until_done(&daemon, "unsampled");
    push(at, "ask", "sampled", &script, &[]);
    eventually("the other one has come", || !collector.spans("process ask").is_empty());
    assert!(collector.all().iter().all(|span| span.trace != TRACE), "{:#?}", collector.all());
    let told = collector.asked()[0].headers["traceparent"].clone();
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    // A job keeps the place that it brought itself.
    let job = serde_json::json!({ "id": "brought", "in": "1h",
        "options": { "headers": { "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" } } });
    let pushed = ask(
        at,
        "POST /v1/topics/ask/jobs",
        &[JSON, ("traceparent", &parent)],
        job.to_string().as_bytes(),
    );
    assert_eq!(pushed.status, 201);
    let kept = get(at, "/v1/topics/ask/jobs/brought").json();
    let place = kept["options"]["headers"]["traceparent"].as_str().unwrap();
    assert!(place.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{kept}");
}

#[test]
fn a_collector_comes_and_goes_with_the_manifest_and_its_absence_costs_no_job() {
    let collector = Collector::start();
    let ground = ground(&collector, "");
    let daemon = ground.start();
    let at = address(&daemon);
    push(at, "order", "off", "ack", &[]);
    wait_until_done(&daemon, "off");
    let job = get(at, "/v1/topics/order/jobs/off");
    assert_eq!(job.status, 404, "{job:?}");
    manifest(&ground, &collector, &collector.origin());
    daemon.wait_for_line("it is on", |line| line.message() == "traces are sent");
    push(at, "order", "on", "ack", &[]);
    eventually("its spans have come", || collector.all().len() == 2);
    let ids = |name: &str| one(&collector, name).attribute("messaging.message.id").to_owned();
    assert_eq!((ids("push order"), ids("process order")), ("on".to_owned(), "on".to_owned()));
    eventually("they are counted", || counted(at, "exported") == 2.0);
    // Nobody listens there.
    manifest(&ground, &collector, "http://127.0.0.1:9");
    daemon.wait_for_line("elsewhere", |line| {
        line.message() == "traces are sent" && line.str("collector").contains(":9")
    });
    push(at, "order", "lost", "ack", &[]);
    wait_until_done(&daemon, "lost");
    eventually("the loss is counted", || counted(at, "failed") == 2.0);
    push(at, "order", "lost-too", "ack", &[]);
    wait_until_done(&daemon, "lost-too");
    eventually("it is counted again", || counted(at, "failed") == 4.0);
    let warned = daemon.count(|line| line.message().contains("does not take them"));
    assert_eq!(warned, 1, "it is told once");
    manifest(&ground, &collector, &collector.origin());
    eventually("the collector is back", || {
        daemon.count(|line| line.message() == "traces are sent") == 3
    });
    push(at, "order", "back", "ack", &[]);
    wait_until_done(&daemon, "back");
    eventually("spans come again", || {
        collector.all().iter().any(|span| span.attribute("messaging.message.id") == "back")
    });
}

#[test]
fn what_waits_when_the_daemon_stops_is_sent() {
    let collector = Collector::start();
    let ground = ground(&collector, &collector.origin());
    let mut daemon = ground.start();
    let at = address(&daemon);
    push(at, "order", "last", "ack", &[]);
    wait_until_done(&daemon, "last");
    assert!(daemon.terminate().success());
    let names: Vec<String> = collector.all().into_iter().map(|span| span.name).collect();
    assert!(names.contains(&"process order".to_owned()), "{names:?}");
}
