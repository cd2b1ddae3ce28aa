//! Job events as server-sent events on a plain socket.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::net::SocketAddr;

use duebox_harness::{Daemon, eventually};
use serde_json::Value;

use crate::support::client::{Connection, address, ask, get, post, request};
use crate::support::fixture::{Fixture, topic};
use crate::support::puppet::PUPPET;

/// A received event.
#[derive(Debug, Clone)]
struct Event {
    id: String,
    event: String,
    data: Value,
}

/// A client of the event stream.
struct Listener {
    connection: Connection,
    text: String,
}

impl Listener {
    /// Opens a stream on this path, after the event with this id if given.
    fn open(at: SocketAddr, path: &str, after: Option<&str>, token: Option<&str>) -> Self {
        let mut headers = Vec::new();
        headers.extend(after.map(|id| ("last-event-id", id)));
        headers.extend(token.map(|token| ("authorization", token)));
        Self::on(Connection::open(at), path, &headers)
    }

    /// Opens a stream on this connection.
    fn on(mut connection: Connection, path: &str, headers: &[(&str, &str)]) -> Self {
        connection.send(&request(&format!("GET {path}"), headers, b""));
        let head = connection.head();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        Self { connection, text: String::new() }
    }

    /// The next event; none at the end.
    fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                match read(&frame) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let chunk = self.connection.chunk();
            if chunk.is_empty() {
                return None;
            }
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next events but releases: on a busy machine a job may not start within 50 ms of its lease.
    fn take(&mut self, count: usize) -> Vec<Event> {
        let next = || self.next().expect("one more event");
        iter::repeat_with(next).filter(|event| event.event != "released").take(count).collect()
    }
}

/// The event of a frame; `None` without data.
fn read(frame: &str) -> Option<Event> {
    let fields: BTreeMap<&str, &str> =
        frame.lines().filter_map(|line| line.split_once(": ")).collect();
    let of = |name: &str| fields.get(name).copied().unwrap_or_default().to_owned();
    let data = fields.get("data")?;
    Some(Event { id: of("id"), event: of("event"), data: serde_json::from_str(data).unwrap() })
}

/// The events by job, in any order.
fn reported(events: &[Event]) -> BTreeSet<String> {
    let one = |event: &Event| {
        assert_eq!(event.data["event"], event.event.as_str(), "{event:?}");
        assert!(event.data["at_ms"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000), "{event:?}");
        let text = |name: &str| event.data[name].as_str().unwrap_or("-").to_owned();
        let attempt = event.data["attempt"].as_u64().unwrap_or(0);
        format!("{} {} {} {attempt} {}", text("topic"), text("id"), event.event, text("class"))
    };
    events.iter().map(one).collect()
}

/// `work` does what its payload says; `mail` is for pull consumers.
fn fixture(runner: &str) -> (Fixture, Daemon, SocketAddr) {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let work = topic("work", "puppet.wat", "max_attempts = 2\nbackoff = \"10ms\"");
    fixture.manifest(runner, &[work, "[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    (fixture, daemon, at)
}

fn push(at: SocketAddr, topic: &str, id: &str, payload: &str) {
    let job = serde_json::json!({ "id": id, "payload": payload });
    let pushed = post(at, &format!("/v1/topics/{topic}/jobs"), &job.to_string());
    assert_eq!(pushed.status, 201, "{pushed:?}");
}

#[test]
fn events_are_off_by_default_and_the_response_says_so() {
    let (fixture, daemon, at) = fixture("");
    let refused = get(at, "/v1/events");
    assert_eq!((refused.problem().as_str(), refused.status), ("events-off", 409));
    assert!(refused.json()["remedy"].as_str().unwrap().contains("runner.events"), "{refused:?}");
    push(at, "work", "a", "");
    daemon.wait_for_line("the verdict", |line| line.has("job_id", "a"));
    assert_eq!(fixture.redis.cli(&["EXISTS", "duebox:events"]), "0");
}

#[test]
fn a_job_is_pushed_before_it_is_acked() {
    const JOBS: usize = 300;
    let (_fixture, _daemon, at) = fixture("events = 1000");
    let mut listener = Listener::open(at, "/v1/events", None, None);
    (0..JOBS).for_each(|n| push(at, "work", &n.to_string(), ""));
    let mut pushed = BTreeMap::new();
    for event in listener.take(2 * JOBS) {
        let id = event.data["id"].as_str().unwrap().to_owned();
        let at_us = event.data["at_us"].as_u64().unwrap();
        assert_eq!(Some(at_us / 1_000), event.data["at_ms"].as_u64());
        match event.event.as_str() {
            "pushed" => drop(pushed.insert(id, at_us)),
            "acked" => {
                let pushed_at = pushed.get(&id).copied();
                assert!(pushed_at.is_some_and(|before| before < at_us), "{id}: {pushed_at:?}");
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(pushed.len(), JOBS);
}

#[test]
fn events_cover_a_job_from_push_to_end() {
    let (_fixture, _daemon, at) = fixture("events = 1000");
    let mut listener = Listener::open(at, "/v1/events", None, None);
    push(at, "work", "good", "");
    assert_eq!(reported(&listener.take(2)), set(&["work good pushed 0 -", "work good acked 1 -"]));
    push(at, "work", "bad", "N");
    let dead = ["work bad pushed 0 -", "work bad retried 1 nack", "work bad dead 2 nack"];
    assert_eq!(reported(&listener.take(3)), set(&dead));
    assert_eq!(post(at, "/v1/topics/work/dead/bad/requeue", "").status, 200);
    let events = listener.take(3);
    let again = ["work bad requeued 0 -", "work bad retried 1 nack", "work bad dead 2 nack"];
    assert_eq!(reported(&events), set(&again));
    let digest = events[2].data["digest"].as_str().unwrap();
    assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
    // A verdict of a consumer is an event; a lost one is not.
    push(at, "mail", "m", "");
    let leased = post(at, "/v1/topics/mail/leases", "").json();
    let token = leased["jobs"][0]["token"].as_str().unwrap().to_owned();
    let ack = |token: &str| {
        post(at, "/v1/topics/mail/jobs/m/ack", &serde_json::json!({ "token": token }).to_string())
    };
    assert_eq!(ack("1763742600123456").status, 409);
    assert_eq!(ack(&token).status, 200);
    assert_eq!(ack(&token).status, 409);
    push(at, "mail", "n", "");
    assert_eq!(ask(at, "DELETE /v1/topics/mail/jobs/n", &[], b"").status, 200);
    let mail =
        ["mail m pushed 0 -", "mail m acked 0 -", "mail n pushed 0 -", "mail n cancelled 0 -"];
    assert_eq!(reported(&listener.take(4)), set(&mail));
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_reconnect_misses_and_repeats_no_event() {
    const JOBS: usize = 1_500;
    let (fixture, daemon, at) = fixture("events = 100000");
    let jobs: String = (0..JOBS).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect();
    let lines = [("content-type", "application/x-ndjson")];
    assert_eq!(ask(at, "POST /v1/topics/work/jobs", &lines, jobs.as_bytes()).status, 200);
    let store = fixture.store();
    let (mut seen, mut last) = (Vec::new(), "0-0".to_owned());
    // Each time it reads some events and disconnects in the middle.
    for part in [1, 7, 300, 501, 1_000] {
        let mut listener = Listener::open(at, "/v1/events?topic=wo*", Some(&last), None);
        seen.extend(listener.take(part));
        last.clone_from(&seen.last().unwrap().id);
    }
    eventually("all jobs are done", || store.live_count("work") == 0);
    let mut listener = Listener::open(at, "/v1/events?topic=work", Some(&last), None);
    // A busy machine also releases jobs that it did not start in time.
    let is_counted = |event: &&Event| ["pushed", "acked"].contains(&event.event.as_str());
    while seen.iter().filter(is_counted).count() < 2 * JOBS {
        seen.push(listener.next().expect("the next event"));
    }
    assert!(seen.windows(2).all(|pair| place(&pair[0]) < place(&pair[1])), "not in their order");
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for event in seen.iter().filter(is_counted) {
        let id = event.data["id"].as_str().unwrap();
        *count.entry(format!("{} {id}", event.event)).or_default() += 1;
    }
    let repeated: Vec<_> = count.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!((count.len(), repeated), (2 * JOBS, Vec::new()));
    drop(daemon);
}

/// The position of an event in the stream.
fn place(event: &Event) -> (u64, u64) {
    let (ms, number) = event.id.split_once('-').unwrap();
    (ms.parse().unwrap(), number.parse().unwrap())
}

#[test]
fn a_pruned_position_is_reported_and_bad_ones_are_refused() {
    let (fixture, _daemon, at) = fixture("events = 10");
    let mut listener = Listener::open(at, "/v1/events", None, None);
    push(at, "mail", "first", "");
    let first = listener.take(1).remove(0);
    let jobs: String = (0..1_000).map(|n| format!("{{\"id\":\"{n}\"}}\n")).collect();
    let lines = [("content-type", "application/x-ndjson")];
    assert_eq!(ask(at, "POST /v1/topics/mail/jobs", &lines, jobs.as_bytes()).status, 200);
    let length = || fixture.redis.cli(&["XLEN", "duebox:events"]).parse::<usize>().unwrap();
    let last = || fixture.redis.cli(&["XREVRANGE", "duebox:events", "+", "-", "COUNT", "1"]);
    eventually("the last one is reported", || last().contains("999"));
    assert!(length() < 500, "{} are kept", length());
    let mut again = Listener::open(at, "/v1/events", Some(&first.id), None);
    let gap = again.next().unwrap();
    assert_eq!((gap.event.as_str(), gap.data["after"].as_str()), ("gap", Some(first.id.as_str())));
    assert_eq!(again.next().unwrap().event, "pushed");
    for (path, field) in [
        ("/v1/events?after=now", "after"),
        ("/v1/events?topic=a%20b", "topic"),
        ("/v1/events?topics=a", "query"),
    ] {
        let refused = get(at, path);
        assert_eq!(
            (refused.status, &refused.json()["field"]),
            (400, &Value::from(field)),
            "{path}"
        );
    }
    let refused = ask(at, "GET /v1/events", &[("last-event-id", "x")], b"");
    assert_eq!(refused.json()["field"], "Last-Event-ID");
}

#[test]
fn a_token_receives_events_of_its_topics_until_it_is_revoked() {
    let (fixture, _daemon, _at) = fixture("");
    let token = |name: &str, scope: &str, topics: &str| {
        let words = ["token", "new", name, "--scopes", scope, "--topics", topics, "--json"];
        let made: Value = serde_json::from_str(&fixture.duebox(&words)).unwrap();
        let text = |field: &str| made[field].as_str().unwrap().to_owned();
        (format!("Bearer {}", text("token")), text("table"))
    };
    let (pusher, push_table) = token("shop", "push", "*");
    let (reader, read_table) = token("post", "consume", "mail");
    fixture.write("tokens.toml", format!("{push_table}\n{read_table}\n"));
    let server = "[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n[topics.fax]\n".to_owned();
    fixture.manifest("events = 1000", &[server]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let none = get(at, "/v1/events");
    assert_eq!((none.problem().as_str(), none.status), ("unauthorized", 401));
    let wrong = ask(at, "GET /v1/events", &[("authorization", &pusher)], b"");
    assert!(wrong.status == 403 && wrong.text().contains("consume"), "{wrong:?}");
    let mut listener = Listener::open(at, "/v1/events", None, Some(&reader));
    let headers = [("content-type", "application/json"), ("authorization", pusher.as_str())];
    for path in ["/v1/topics/fax/jobs", "/v1/topics/mail/jobs"] {
        assert_eq!(ask(at, &format!("POST {path}"), &headers, b"{}").status, 201);
    }
    assert_eq!(listener.next().unwrap().data["topic"], "mail");
    fixture.write("tokens.toml", &push_table);
    let end = listener.next().unwrap();
    assert_eq!((end.event.as_str(), end.data["reason"].as_str()), ("end", Some("forbidden")));
    assert!(listener.next().is_none());
}

#[test]
fn a_drain_ends_the_stream_with_an_event() {
    let (_fixture, mut daemon, at) = fixture("events = 1000");
    let mut listener = Listener::open(at, "/v1/events", None, None);
    assert!(daemon.terminate().success());
    let end = listener.next().unwrap();
    assert_eq!((end.event.as_str(), end.data["reason"].as_str()), ("end", Some("draining")));
    assert!(listener.next().is_none());
}

#[test]
fn the_number_of_listeners_is_limited() {
    let (_fixture, _daemon, at) = fixture("events = 1000");
    let mut listeners: Vec<Listener> =
        (0..32).map(|_| Listener::open(at, "/v1/events", None, None)).collect();
    let refused = get(at, "/v1/events");
    assert_eq!((refused.problem().as_str(), refused.status), ("readers", 429));
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    listeners.pop();
    let head = || {
        let mut connection = Connection::open(at);
        connection.send(&request("GET /v1/events", &[], b""));
        connection.head().status
    };
    eventually("there is room again", || head() == 200);
}

#[test]
fn a_slow_listener_is_disconnected() {
    let (_fixture, daemon, at) = fixture("events = 100000");
    let mut slow = Listener::on(Connection::open_narrow(at), "/v1/events", &[]);
    // More than the socket buffers of both sides.
    let long = "x".repeat(240);
    let lines = [("content-type", "application/x-ndjson")];
    for part in 0..20 {
        let jobs: String = (0..2_000)
            .map(|n| format!("{{\"id\":\"{long}-{part}-{n}\",\"in\":\"1h\"}}\n"))
            .collect();
        let pushed = ask(at, "POST /v1/topics/mail/jobs", &lines, jobs.as_bytes());
        assert_eq!(pushed.status, 200);
    }
    let mut quick = Listener::open(at, "/v1/events?after=0-0", None, None);
    assert_eq!(quick.take(40_000).len(), 40_000);
    daemon.wait_for_line("the end", |line| line.message().contains("is disconnected"));
    let mut last = None;
    while let Some(event) = slow.next() {
        last = Some(event);
    }
    let last = last.unwrap();
    assert_eq!((last.event.as_str(), last.data["reason"].as_str()), ("end", Some("too_slow")));
}

#[test]
fn the_example_prints_what_its_page_shows() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/events.md"));
    let page = page.unwrap();
    let example = page.split("```\n$ ").nth(1).unwrap().split("```").next().unwrap();
    let (command, printed) = example.split_once('\n').unwrap();
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("events = 1000", &[topic("order.close", "puppet.wat", "")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let command = format!("exec {} -s", command.replace("localhost:7280", &at.to_string()));
    let mut curl = std::process::Command::new("sh")
        .args(["-c", &command])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(curl.stdout.take().unwrap()));
    let mut lines = lines.map(Result::unwrap);
    // The stream is open after the greeting.
    assert_eq!(lines.next().as_deref(), Some("retry: 1000"));
    push(at, "order.close", "42", "");
    let mut found = Vec::new();
    while found.len() < 2 {
        let line = lines.next().unwrap();
        found.extend(line.strip_prefix("data: ").map(str::to_owned));
    }
    curl.kill().unwrap();
    curl.wait().unwrap();
    let fields = |json: &str| -> BTreeSet<String> {
        let data: serde_json::Map<String, Value> = serde_json::from_str(json).unwrap();
        let named =
            data.iter().filter(|(name, _)| !matches!(name.as_str(), "digest" | "at_ms" | "at_us"));
        named.map(|(name, value)| format!("{name}={value}")).collect()
    };
    let printed: BTreeSet<_> =
        printed.lines().filter_map(|line| line.strip_prefix("data: ")).map(fields).collect();
    assert_eq!(found.iter().map(|json| fields(json)).collect::<BTreeSet<_>>(), printed);
}
