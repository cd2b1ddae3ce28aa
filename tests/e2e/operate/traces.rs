//! Traces as a collector receives them: one from the push to the last verdict, through a retry and a follow-up job,
//! with the calls of the handlers. Nothing is sent without a collector.

use std::net::SocketAddr;

use duebox_harness::{Daemon, eventually};

use crate::support::client::{address, ask, get};
use crate::support::collector::{Collector, ReceivedSpan};
use crate::support::exposition::metrics;
use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::settled_as;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const JSON: (&str, &str) = ("content-type", "application/json");

/// `order` pushes follow-ups to `ask`, whose jobs ask the collector's own server; traces go to `otlp`.
fn fixture(collector: &Collector, otlp: &str) -> Fixture {
    let fixture = Fixture::new();
    manifest(&fixture, collector, otlp);
    fixture
}

fn manifest(fixture: &Fixture, collector: &Collector, otlp: &str) {
    let grants = format!(
        "backoff = \"10ms\"\nsandbox = {{ http = [\"{}\"], http_private = [\"127.0.0.1\"], kv = true }}",
        collector.origin()
    );
    let topics = [
        topic("order", &built("relay-rust"), "sandbox = { push = [\"ask\"] }"),
        topic("ask", &built("reach-rust"), &grants),
    ];
    fixture.manifest(&format!("otlp = \"{otlp}\""), &topics);
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
fn one(collector: &Collector, name: &str) -> ReceivedSpan {
    let found = collector.spans(name);
    assert_eq!(found.len(), 1, "{name}: {:#?}", collector.all());
    found[0].clone()
}

fn counted(at: SocketAddr, outcome: &str) -> f64 {
    metrics(at).value("duebox_trace_spans_total", &[("outcome", outcome)])
}

#[test]
fn one_trace_leads_from_the_push_through_a_retry_and_a_follow_up_to_the_ack() {
    let collector = Collector::start();
    let fixture = fixture(&collector, &collector.origin());
    let daemon = fixture.start();
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
    // The follow-up belongs to the same trace.
    let asks = collector.spans("push ask");
    let asked: Vec<&ReceivedSpan> = asks.iter().filter(|span| span.trace == TRACE).collect();
    assert!(asked.len() == 1 && asked[0].parent == ordered.id && asked[0].kind == 4, "{asked:?}");
    let processed = collector.spans("process ask");
    let kid: Vec<&ReceivedSpan> = processed.iter().filter(|span| span.trace == TRACE).collect();
    let verdicts: Vec<&str> = kid.iter().map(|span| span.attribute("duebox.verdict")).collect();
    assert_eq!(verdicts, ["nack", "ack"]);
    assert!(kid.iter().all(|span| span.parent == asked[0].id && span.state == "shop=1"), "{kid:?}");
    // The request of the handler is a child of its attempt and carries its trace context.
    let requests = collector.spans("GET");
    for (attempt, reported) in kid.iter().zip(collector.asked()) {
        let request = requests.iter().find(|span| span.parent == attempt.id).unwrap();
        assert_eq!((request.trace.as_str(), request.kind), (TRACE, 3));
        assert_eq!(request.is_error, attempt.is_error);
        assert_eq!(request.attribute("server.address"), "127.0.0.1");
        assert_eq!(reported.path, "/drops");
        assert_eq!(reported.headers["traceparent"], format!("00-{TRACE}-{}-01", request.id));
        assert_eq!(reported.headers["tracestate"], "shop=1");
    }
    // A push without a trace context starts a new trace.
    let own = asks.iter().find(|span| span.trace != TRACE).unwrap();
    assert_eq!((own.parent.as_str(), own.attribute("messaging.message.id")), ("", "own"));
    let counted = one(&collector, "kv_add");
    let attempt = processed.iter().find(|span| span.trace == own.trace).unwrap();
    assert_eq!((&counted.parent, &attempt.parent), (&attempt.id, &own.id));
    assert!(collector.services().iter().all(|name| name == "duebox"));
}

#[test]
fn attempts_are_children_of_the_push_and_failures_have_a_reason() {
    let collector = Collector::start();
    let fixture = fixture(&collector, &collector.origin());
    let daemon = fixture.start();
    let at = address(&daemon);
    let script = format!("send GET {}/fails; verdict", collector.origin());
    push(at, "ask", "a", &script, &[]);
    wait_until_done(&daemon, "a");
    eventually("both attempts have come", || collector.spans("process ask").len() == 2);
    let push = one(&collector, "push ask");
    let attempts = collector.spans("process ask");
    let reported = |span: &ReceivedSpan| {
        let of = |name: &str| span.attribute(name).to_owned();
        (of("duebox.attempt"), of("duebox.verdict"), of("duebox.settled"), of("duebox.class"))
    };
    let words = |words: [&str; 4]| {
        (words[0].to_owned(), words[1].to_owned(), words[2].to_owned(), words[3].to_owned())
    };
    assert_eq!(reported(&attempts[0]), words(["1", "nack", "retry", "nack"]));
    assert_eq!(reported(&attempts[1]), words(["2", "ack", "done", ""]));
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
fn an_unsampled_trace_is_only_propagated() {
    let collector = Collector::start();
    let fixture = fixture(&collector, &collector.origin());
    let daemon = fixture.start();
    let at = address(&daemon);
    let parent = format!("00-{TRACE}-{PARENT}-00");
    let script = format!("must GET {}/work", collector.origin());
    push(at, "ask", "unsampled", &script, &[("traceparent", &parent)]);
    wait_until_done(&daemon, "unsampled");
    push(at, "ask", "sampled", &script, &[]);
    eventually("the other one has come", || !collector.spans("process ask").is_empty());
    assert!(collector.all().iter().all(|span| span.trace != TRACE), "{:#?}", collector.all());
    let reported = collector.asked()[0].headers["traceparent"].clone();
    assert!(
        reported.starts_with(&format!("00-{TRACE}-")) && reported.ends_with("-00"),
        "{reported}"
    );
    // A job keeps its own trace context.
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
fn a_missing_collector_costs_no_job() {
    let collector = Collector::start();
    let fixture = fixture(&collector, "");
    let daemon = fixture.start();
    let at = address(&daemon);
    push(at, "order", "off", "ack", &[]);
    wait_until_done(&daemon, "off");
    let job = get(at, "/v1/topics/order/jobs/off");
    assert_eq!(job.status, 404, "{job:?}");
    manifest(&fixture, &collector, &collector.origin());
    daemon.wait_for_line("it is on", |line| line.message() == "sending traces");
    push(at, "order", "on", "ack", &[]);
    eventually("its spans have come", || collector.all().len() == 2);
    let ids = |name: &str| one(&collector, name).attribute("messaging.message.id").to_owned();
    assert_eq!((ids("push order"), ids("process order")), ("on".to_owned(), "on".to_owned()));
    eventually("they are counted", || counted(at, "exported") == 2.0);
    // Nothing listens on this port.
    manifest(&fixture, &collector, "http://127.0.0.1:9");
    daemon.wait_for_line("elsewhere", |line| {
        line.message() == "sending traces" && line.str("collector").contains(":9")
    });
    push(at, "order", "lost", "ack", &[]);
    wait_until_done(&daemon, "lost");
    eventually("the loss is counted", || counted(at, "failed") == 2.0);
    push(at, "order", "lost-too", "ack", &[]);
    wait_until_done(&daemon, "lost-too");
    eventually("it is counted again", || counted(at, "failed") == 4.0);
    let warned = daemon.count(|line| line.message().contains("does not accept spans"));
    assert_eq!(warned, 1, "it is reported once");
    manifest(&fixture, &collector, &collector.origin());
    eventually("the collector is back", || {
        daemon.count(|line| line.message() == "sending traces") == 3
    });
    push(at, "order", "back", "ack", &[]);
    wait_until_done(&daemon, "back");
    eventually("spans come again", || {
        collector.all().iter().any(|span| span.attribute("messaging.message.id") == "back")
    });
}

#[test]
fn pending_spans_are_sent_at_shutdown() {
    let collector = Collector::start();
    let fixture = fixture(&collector, &collector.origin());
    let mut daemon = fixture.start();
    let at = address(&daemon);
    push(at, "order", "last", "ack", &[]);
    wait_until_done(&daemon, "last");
    assert!(daemon.terminate().success());
    let names: Vec<String> = collector.all().into_iter().map(|span| span.name).collect();
    assert!(names.contains(&"process order".to_owned()), "{names:?}");
}
