//! What clients cannot take from others: the memory of bodies, and connections.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use duebox_harness::{Daemon, eventually, output_with};

use crate::support::client::{Connection, address, ask, fixture, get, post, request, token};
use crate::support::fixture::Fixture;

const JSON: (&str, &str) = ("content-type", "application/json");
const PUSH: &str = "POST /v1/topics/mail/jobs";
const BODY: usize = 2 << 20;

/// The private memory of a daemon, in MiB.
fn memory(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

/// A body of 2 MiB in about 2 KiB.
fn packed() -> Vec<u8> {
    let body = [b"{\"payload\":\"".as_slice(), &vec![b'x'; BODY - 64]].concat();
    output_with(&mut Command::new("gzip"), &body).unwrap().stdout
}

/// This many line feeds, compressed.
fn packed_blank_lines(bytes: usize) -> Vec<u8> {
    let script = format!("head -c {bytes} /dev/zero | tr '\\0' '\\n' | gzip -1");
    Command::new("sh").args(["-c", &script]).output().unwrap().stdout
}

/// A request whose body comes in one chunk, after which more is announced.
fn unfinished(line: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n",
        body.len()
    );
    [head.as_bytes(), body, b"\r\n"].concat()
}

#[test]
fn a_request_for_two_hosts_is_refused() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let mut connection = Connection::open(address(&daemon));
    let hosts = "host: localhost\r\nhost: evil.example\r\n";
    connection.send(format!("GET /v1/topics HTTP/1.1\r\n{hosts}\r\n").as_bytes());
    let answer = connection.answer();
    assert_eq!((answer.status, answer.problem()), (400, "bad-request".to_owned()));
}

#[test]
fn a_request_without_a_token_is_refused_before_its_body() {
    let fixture = Fixture::new();
    let (_, table) = token(&fixture, "shop", "push", "mail");
    fixture.write("tokens.toml", table);
    fixture.manifest("", &["[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let body = packed();
    let before = memory(&daemon);
    let mut held = Vec::new();
    for line in ["POST /", PUSH] {
        for _ in 0..100 {
            let mut connection = Connection::open(at);
            connection.send(&unfinished(line, &body));
            held.push(connection);
        }
    }
    for connection in &mut held {
        assert_eq!(connection.answer().problem(), "unauthorized");
    }
    assert!(memory(&daemon) < before + 64, "{before} MiB, then {} MiB", memory(&daemon));
    // A log-in is read without a token, so it is short.
    let long = format!("{{\"token\":\"{}\"}}", "x".repeat(4 << 10));
    assert_eq!(post(at, "/session", &long).problem(), "too-large");
    let mut login = Connection::open(at);
    login.send(&unfinished("POST /session", &body));
    assert_eq!(login.answer().problem(), "too-large");
    assert_eq!(post(at, "/session", "{\"token\":\"guess\"}").status, 401);
}

#[test]
fn all_bodies_together_have_a_bound() {
    let (_fixture, daemon, at) = fixture("[topics.mail]\n");
    let body = packed();
    let before = memory(&daemon);
    let mut held: Vec<Connection> = (0..200)
        .map(|_| {
            let mut connection = Connection::open(at);
            connection.send(&unfinished(PUSH, &body));
            connection
        })
        .collect();
    let large = format!("{{\"payload\":\"{}\"}}", "x".repeat(BODY - 64));
    eventually("the memory is taken", || {
        let busy = ask(at, PUSH, &[JSON], large.as_bytes());
        busy.status == 503 && busy.problem() == "busy" && busy.header("retry-after") == Some("1")
    });
    let taken = memory(&daemon);
    // Without the bound these would be 400 MiB, and up to twice that while they grow.
    assert!(taken < before + 250, "{before} MiB, then {taken} MiB");
    assert_eq!(get(at, "/livez").status, 200);
    held.clear();
    eventually("the memory is free", || post(at, "/v1/topics/mail/jobs", "{}").status == 201);
}

#[test]
fn probes_answer_when_a_peer_holds_all_its_connections() {
    let (_fixture, _daemon, at) = fixture("[server]\nmax_peer_connections = 8\n[topics.mail]\n");
    let silent: Vec<Connection> = (0..8).map(|_| Connection::open(at)).collect();
    // Connections that say nothing do not keep out a probe.
    let more: Vec<Connection> = (0..100).map(|_| Connection::open(at)).collect();
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(get(at, path).status, 200, "{path}");
    }
    let refused = get(at, "/v1/topics");
    assert_eq!((refused.problem().as_str(), refused.status), ("busy", 503));
    // Another peer is not concerned.
    let mut other = Connection::open_from(SocketAddr::from(([127, 0, 0, 2], 0)), at);
    other.send(&request("GET /v1/topics", &[], b""));
    assert_eq!(other.answer().status, 200);
    // A connection without a request ends after ten seconds.
    eventually("the silent ones are closed", || get(at, "/v1/topics").status == 200);
    drop((silent, more));
}

/// Connections that come as fast as they can and do not wait for their answers.
#[test]
fn probes_answer_while_a_peer_connects_again_and_again() {
    let (_fixture, _daemon, at) = fixture("[server]\nmax_peer_connections = 8\n[topics.mail]\n");
    let _silent: Vec<Connection> = (0..8).map(|_| Connection::open(at)).collect();
    let is_over = AtomicBool::new(false);
    let flood = || {
        while !is_over.load(Ordering::Relaxed) {
            let many: Vec<TcpStream> =
                (0..100).filter_map(|_| TcpStream::connect(at).ok()).collect();
            for mut stream in many {
                drop(stream.write_all(b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n\r\n"));
            }
        }
    };
    let probe = || {
        let mut stream = TcpStream::connect(at).unwrap();
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let read = asked.and_then(|()| stream.read_to_string(&mut answer));
        read.is_ok() && answer.starts_with("HTTP/1.1 200")
    };
    std::thread::scope(|scope| {
        let floods = [0; 4].map(|_| scope.spawn(flood));
        let answered = (0..100).filter(|_| probe()).count();
        is_over.store(true, Ordering::Relaxed);
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        assert_eq!(answered, 100);
    });
}

#[test]
fn a_stream_of_blank_lines_keeps_no_one_waiting() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let body = packed_blank_lines(128 << 20);
    let kind = ("content-type", "application/x-ndjson");
    let stream = request(PUSH, &[kind, ("content-encoding", "gzip")], &body);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = Connection::open(at);
            connection.send(&stream);
            let answer = connection.answer();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!((answer.status, answer.body.len()), (200, 0));
        });
        let mut meanwhile = 0;
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(get(at, "/livez").status, 200);
            meanwhile += 1;
        }
        assert!(meanwhile >= 20, "{meanwhile} probes were answered");
    });
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame_of(stream: u8, kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// The same for the whole connection.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    frame_of(0, kind, flags, payload)
}

/// A GET in the form of HPACK (RFC 7541): fields by their numbers in its table, with these values.
fn get_block(path: &str, authorization: &str) -> Vec<u8> {
    let value = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [
        &[0x82, 0x86, 0x04][..],
        &value(path),
        &[0x01],
        &value("localhost"),
        &[0x0f, 0x08],
        &value(authorization),
    ]
    .concat()
}

#[test]
fn responses_that_are_not_read_have_a_bound() {
    const END: u8 = 0x4 | 0x1;
    const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];
    let fixture = Fixture::new();
    let (greedy, first) = token(&fixture, "greedy", "push,read", "mail");
    let (modest, second) = token(&fixture, "modest", "read", "mail");
    fixture.write("tokens.toml", format!("{first}\n{second}\n"));
    fixture.manifest("", &["[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let large = format!("{{\"id\":\"large\",\"payload\":\"{}\"}}", "x".repeat(1 << 20));
    let pushed = ask(at, PUSH, &[JSON, ("authorization", &greedy)], large.as_bytes());
    assert_eq!(pushed.status, 201);
    let path = "/v1/topics/mail/jobs/large";
    let read = |token: &str| ask(at, &format!("GET {path}"), &[("authorization", token)], b"");
    assert_eq!(read(&greedy).status, 200);
    // Its client takes the heads of the responses, and nothing of their bodies.
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, NO_WINDOW)].concat()).unwrap();
    for number in (1..=127).step_by(2) {
        let request = frame_of(number, HEADERS, END, &get_block(path, &greedy));
        stream.write_all(&request).unwrap();
    }
    eventually("the memory of its token is taken", || {
        let busy = read(&greedy);
        busy.status == 503 && busy.problem() == "busy" && busy.header("retry-after") == Some("1")
    });
    assert_eq!(read(&modest).status, 200);
    drop(stream);
    eventually("the memory is free", || read(&greedy).status == 200);
}

#[test]
fn a_client_writes_no_log() {
    const ACK: u8 = 1;
    let (_fixture, daemon, at) = fixture("[topics.mail]\n");
    let before = daemon.lines().len();
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, &[])).unwrap();
    stream.write_all(&frame(PING, ACK, b"unasked!").repeat(1_000)).unwrap();
    stream.write_all(&frame(PING, 0, b"the last")).unwrap();
    let (last, mut answer) = (frame(PING, ACK, b"the last"), Vec::new());
    while !answer.windows(last.len()).any(|part| part == last) {
        let mut piece = [0; 1_024];
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the connection ended");
        answer.extend_from_slice(&piece[..read]);
    }
    // What is logged first is written first.
    assert_eq!(get(at, "/v1/topics").status, 200);
    let lines = daemon.lines();
    assert!(lines.len() < before + 10, "{} lines, such as {:?}", lines.len(), lines.last());
}
