//! The page "Push jobs from your application": each of its programs, in six languages, by Redis and over HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use duebox_harness::{eventually, only_on_one_server};
use serde_json::Value;

use crate::support::client::{address, get};
use crate::support::fixture::{Fixture, topic};
use crate::support::log::{handler_lines, verdicts};
use crate::support::page::Page;
use crate::support::program::{program, run};

const PAGE: &str = "docs/guide/producers.md";
const LANGUAGES: [&str; 6] = ["php", "python", "js", "go", "java", "ruby"];
/// What their jobs' ids begin with.
const NAMES: [&str; 6] = ["php", "python", "node", "go", "java", "ruby"];

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("duebox-producer-").tempdir().unwrap()
}

#[test]
fn programs_in_six_languages_push_by_redis() {
    only_on_one_server!("the programs connect to one server");
    let fixture = Fixture::new();
    let logs = "import { log } from \"duebox\";\nexport default (mail) => log.info(mail.to);\n";
    fixture.write("mail.js", logs);
    fixture.manifest("", &[topic("mail", "mail.js", "")]);
    let daemon = fixture.start();
    let port = fixture.redis.server().port().to_string();
    let page = Page::read(PAGE).part("## By Redis");
    let programs = page.programs();
    assert_eq!(programs.iter().map(|(language, _)| *language).collect::<Vec<_>>(), LANGUAGES);
    let mut earliest = Vec::new();
    for ((language, code), name) in programs.into_iter().zip(NAMES) {
        let dir = folder();
        let command = program(language, &code.replace("6379", &port), dir.path());
        earliest.push((format!("{name}-1"), fixture.store().now_ms() as i64 + 2_000));
        run(command);
    }
    eventually("every job is done", || verdicts(&daemon).len() == LANGUAGES.len());
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.settled == "done"));
    let lines = handler_lines(&daemon);
    for (id, due_ms) in earliest {
        let line = lines.iter().find(|line| line.id == id).expect(&id);
        assert_eq!(line.text, "ann@example.org");
        assert!(line.at_ms >= due_ms, "{id} came early: {line:?}, due {due_ms}");
    }
}

/// Forwards requests to a daemon, except the first three: it refuses two, and drops the response of the third.
struct Unreliable {
    at: SocketAddr,
}

impl Unreliable {
    fn start(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                // An error ends this connection; the program then repeats its request.
                drop(Self::serve(client, number, daemon));
            }
        });
        Self { at }
    }

    fn serve(mut client: TcpStream, number: usize, daemon: SocketAddr) -> std::io::Result<()> {
        let request = whole(&mut client)?;
        let refused = |status: &str| {
            format!(
                "HTTP/1.1 {status}\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        };
        match number {
            0 => return client.write_all(refused("503 Service Unavailable").as_bytes()),
            1 => return client.write_all(refused("429 Too Many Requests").as_bytes()),
            _ => {}
        }
        let mut server = TcpStream::connect(daemon)?;
        server.write_all(&request)?;
        let mut response = Vec::new();
        server.read_to_end(&mut response)?;
        if number > 2 { client.write_all(&response) } else { Ok(()) }
    }
}

/// A request with its body, which asks for the end of the connection.
fn whole(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let read = client.read(&mut part)?;
        bytes.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        let lengths = head.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().unwrap())
        });
        if read == 0 || body.len() >= lengths.sum::<usize>() {
            let (line, headers) = head.split_once("\r\n").unwrap();
            let kept =
                headers.lines().filter(|line| !line.to_lowercase().starts_with("connection:"));
            let kept: Vec<&str> = kept.collect();
            let text =
                format!("{line}\r\n{}\r\nconnection: close\r\n\r\n{body}", kept.join("\r\n"));
            return Ok(text.into_bytes());
        }
    }
}

#[test]
fn programs_in_six_languages_push_over_http_until_they_are_answered() {
    only_on_one_server!("what they push is the same on a cluster");
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let page = Page::read(PAGE).part("## Over HTTP");
    let programs = page.programs();
    assert_eq!(programs.iter().map(|(language, _)| *language).collect::<Vec<_>>(), LANGUAGES);
    thread::scope(|scope| {
        for ((language, code), name) in programs.into_iter().zip(NAMES) {
            scope.spawn(move || {
                let front = Unreliable::start(at);
                let code = code.replace("127.0.0.1:7280", &front.at.to_string());
                let dir = folder();
                let printed = run(program(language, &code, dir.path()));
                // The request without a response has stored them.
                let expected = match language {
                    "java" => "\"pushed\":0,\"existing\":2,\"refused\":0",
                    _ => "pushed 0, existing 2, refused 0\n",
                };
                assert!(printed.contains(expected), "{language}: {printed}");
                let job = get(at, &format!("/v1/topics/mail/jobs/{name}-3")).json();
                let payload: Value =
                    serde_json::from_str(job["payload"].as_str().unwrap()).unwrap();
                assert_eq!(payload["to"], "bob@example.org", "{job}");
                assert_eq!(job["options"]["max_attempts"], 3, "{job}");
            });
        }
    });
    assert_eq!(fixture.store().live_count("mail"), 2 * LANGUAGES.len());
}
