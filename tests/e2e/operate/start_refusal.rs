//! Errors at the start of a daemon: one message with the cause and the remedy, an exit code, and no changed key.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use duebox_harness::{Daemon, RedisServer, only_on_one_server};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::producer::push;

const BAD_INPUT: i32 = 2;
const FAILED: i32 = 1;

/// Starts a daemon that must refuse to start, and returns its log.
fn refused(fixture: &Fixture, exit: i32) -> String {
    let before = fixture.store().dump();
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    let status = daemon.wait_exit();
    let printed: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    let printed = printed.join("\n");
    assert_eq!(status.code(), Some(exit), "{printed}");
    assert_eq!(daemon.count(|line| line.message() == "ready"), 0, "{printed}");
    assert_eq!(fixture.store().dump(), before, "keys have changed");
    printed
}

/// A fixture with a waiting job, which must not change.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    push(&fixture, "work", "waiting", 0);
    fixture
}

#[test]
fn modules_that_cannot_serve() {
    let fixture = fixture();
    let whole = Handler::logs("whole").wasm();
    let module =
        |body: &str| format!("(module {body} (memory (export \"memory\") 1))").into_bytes();
    let importing = |import: &str| {
        module(&format!(
            "(import {import}) (func (export \"handle\") (param i32) (result i32) i32.const 0)"
        ))
    };
    for (name, content, words) in [
        ("empty.wasm", vec![], ["is empty", "rename it into place"]),
        ("half.wasm", whole[..whole.len() / 2].to_vec(), ["is truncated", "rename it"]),
        ("bytes.wasm", vec![0xff, 0], ["not a WebAssembly module", "use the file"]),
        ("text.wat", b"(module (func".to_vec(), ["text does not parse", "line 1"]),
        ("bare.wat", module(""), ["no function `handle`", "export `handle(len: i32) -> i32`"]),
        (
            "typed.wat",
            module("(func (export \"handle\") (param i64) (result i32) i32.const 0)"),
            ["`handle` has the type (i64) -> (i32)", "must be (i32) -> i32"],
        ),
        (
            "pointer.wat",
            module("(func (export \"handle\") (param i32 i32) (result i32) i32.const 0)"),
            ["no function `alloc", "takes a pointer"],
        ),
        (
            "unknown.wat",
            importing("\"env\" \"launch\" (func)"),
            ["unknown import env.launch", "docs/reference/abi.md"],
        ),
        (
            "ungranted.wat",
            importing(
                "\"duebox_v1\" \"http_send\" (func (param i32 i32 i32 i32 i32) (result i32))",
            ),
            ["duebox_v1.http_send is not granted", "under `http` in the topic's sandbox"],
        ),
        (
            "command.wat",
            module("(func (export \"_start\"))"),
            ["exports `_start`", "build a reactor"],
        ),
    ] {
        fixture.write(name, content);
        fixture.manifest("", &[topic("work", name, "")]);
        let printed = refused(&fixture, BAD_INPUT);
        for word in words.into_iter().chain([name, "topic work"]) {
            assert!(printed.contains(word), "{word:?} is not in:\n{printed}");
        }
    }
}

#[test]
fn every_bad_module_is_named_at_once() {
    let fixture = fixture();
    fixture.write("good.wat", Handler::logs("good").wat());
    fixture.write("bad.wat", "(module");
    fixture.manifest(
        "",
        &[
            topic("good", "good.wat", ""),
            topic("bad", "bad.wat", ""),
            topic("gone", "gone.wasm", ""),
        ],
    );
    let printed = refused(&fixture, BAD_INPUT);
    assert!(
        printed.contains("bad.wat is refused") && printed.contains("gone.wasm cannot be read"),
        "{printed}"
    );
    assert!(!printed.contains("topic good"), "{printed}");
}

#[test]
fn invalid_manifests() {
    let fixture = fixture();
    fixture.write("work.wat", hostile("returns_seven"));
    for (topics, words) in [
        ("[topics.work\nhandler = \"work.wat\"", ["duebox.toml", "topics.work"]),
        ("[topics.work]\nhandler = \"work.wat\"\nspeed = 9", ["speed", "hint"]),
        ("[topics.work]\nhandler = \"work.wat\"\nconcurency = 9", ["concurency", "`concurrency`?"]),
        ("[topics.work]\nhandler = \"work.wat\"\nttr = \"0s\"", ["ttr", "hint"]),
        ("[topics.work]\nhandler = \"work.wat\"\nttr = 30", ["ttr", "hint"]),
        ("[topics.\"a b\"]\nhandler = \"work.wat\"", ["a b", "hint"]),
        ("[topics.work]\nhandler = \"${DUEBOX_TEST_UNSET}\"", ["DUEBOX_TEST_UNSET", "hint"]),
        ("[server]\ncors = [\"https://*.example\"]", ["cors", "list each origin"]),
    ] {
        fixture.manifest("", &[topics.to_owned()]);
        let printed = refused(&fixture, BAD_INPUT);
        for word in words {
            assert!(printed.contains(word), "{word:?} is not in:\n{printed}");
        }
    }
    std::fs::remove_file(fixture.path("duebox.toml")).unwrap();
    let printed = refused(&fixture, BAD_INPUT);
    assert!(printed.contains("duebox.toml") && printed.contains("hint"), "{printed}");
}

#[test]
fn a_redis_that_may_evict_jobs() {
    let fixture = Fixture::with_args(&["--maxmemory-policy", "allkeys-lru"]);
    with_a_good_topic(&fixture);
    let printed = refused(&fixture, FAILED);
    for word in ["allkeys-lru", "evict", "CONFIG SET maxmemory-policy noeviction"] {
        assert!(printed.contains(word), "{printed}");
    }
    assert_eq!(fixture.redis.cli(&["EXISTS", "duebox:layout"]), "0", "refused, and written");
    fixture.redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let _daemon = fixture.start();
    assert_eq!(fixture.redis.cli(&["GET", "duebox:layout"]), "1");
}

#[test]
fn a_redis_that_is_too_old() {
    only_on_one_server!("a proxy in front of one server changes the version that it reports");
    let fixture = Fixture::new();
    let old = older_version(fixture.redis.server());
    let fixture = fixture.reached_at(format!("redis://127.0.0.1:{old}/0"));
    with_a_good_topic(&fixture);
    let printed = refused(&fixture, FAILED);
    assert!(
        printed.contains("is version \\\"6.") || printed.contains("is version \"6."),
        "{printed}"
    );
    assert!(printed.contains("7.0 or newer"), "{printed}");
}

#[test]
fn an_absent_redis_and_a_missing_password() {
    only_on_one_server!("the queue's cluster tests have dead seeds and refused logins");
    let redis = RedisServer::with_args(&["--requirepass", "open sesame"]);
    let url = redis.url();
    let mut fixture = Fixture::on(redis).reached_at(url);
    with_a_good_topic(&fixture);
    let printed = unconnected(&fixture);
    assert!(printed.contains("NOAUTH") || printed.contains("uthentication"), "{printed}");
    let secret = fixture.write("secret", "open sesame\n");
    let text = std::fs::read_to_string(fixture.path("duebox.toml")).unwrap();
    let password = format!("poll = \"200ms\"\npassword = {{ file = \"{}\" }}", secret.display());
    fixture.write("duebox.toml", text.replace("poll = \"200ms\"", &password));
    drop(fixture.start());
    fixture.redis.stop();
    let printed = unconnected(&fixture);
    let address = format!("127.0.0.1:{}", fixture.redis.server().port());
    assert!(
        printed.contains(&address) && printed.contains("start it, or correct redis.url"),
        "{printed}"
    );
    assert!(!printed.contains("sesame"), "the password is in the log: {printed}");
}

#[test]
fn missing_persistence_is_only_a_warning() {
    let warned = |fixture: &Fixture| {
        with_a_good_topic(fixture);
        let daemon = fixture.start();
        daemon.count(|l| {
            l.has("level", "WARN") && l.message().starts_with("Redis does not persist data")
        })
    };
    let forgetful = Fixture::new();
    let servers = forgetful.redis.primaries().len();
    assert_eq!((warned(&forgetful), warned(&Fixture::persistent())), (servers, 0));
}

fn with_a_good_topic(fixture: &Fixture) {
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("work", "work.wat", "")]);
}

/// The log of a daemon that cannot connect.
fn unconnected(fixture: &Fixture) -> String {
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    let status = daemon.wait_exit();
    let printed: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    assert_eq!(status.code(), Some(FAILED), "{printed:?}");
    printed.join("\n")
}

/// The port of a proxy through which this Redis reports version 6.
fn older_version(redis: &RedisServer) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, redis_port) = (listener.local_addr().unwrap().port(), redis.port());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) =
                (client.unwrap(), TcpStream::connect((Ipv4Addr::LOCALHOST, redis_port)).unwrap());
            let (mut asks, mut answers) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut asks, &mut server));
            std::thread::spawn(move || {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = answers.read(&mut bytes) {
                    const VERSION: &[u8] = b"redis_version:";
                    let heard = &mut bytes[..count];
                    if let Some(at) = heard.windows(VERSION.len()).position(|w| w == VERSION) {
                        heard[at + VERSION.len()] = b'6';
                    }
                    if client.write_all(heard).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}
