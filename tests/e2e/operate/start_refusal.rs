//! What a daemon refuses to start on: each gets one message that names the thing and the remedy, an
//! exit code that says whose fault it is, and leaves every key as it was.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use duebox_harness::{Daemon, RedisServer};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::producer::push;

const BAD_INPUT: i32 = 2;
const FAILED: i32 = 1;

/// Starts a daemon that must refuse, and answers what it said.
fn refused(ground: &Ground, exit: i32) -> String {
    let before = ground.store().dump();
    let mut daemon = Daemon::start(&ground.path("duebox.toml"));
    let status = daemon.wait_exit();
    let said: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    let said = said.join("\n");
    assert_eq!(status.code(), Some(exit), "{said}");
    assert_eq!(daemon.count(|line| line.message() == "ready"), 0, "{said}");
    assert_eq!(ground.store().dump(), before, "keys have changed");
    said
}

/// Ground with a job that waits, so that there is something to lose.
fn ground() -> Ground {
    let ground = Ground::new();
    push(&ground, "work", "waiting", 0);
    ground
}

#[test]
fn modules_that_cannot_serve() {
    let ground = ground();
    let whole = Handler::says("whole").wasm();
    let module =
        |body: &str| format!("(module {body} (memory (export \"memory\") 1))").into_bytes();
    let importing = |import: &str| {
        module(&format!(
            "(import {import}) (func (export \"handle\") (param i32) (result i32) i32.const 0)"
        ))
    };
    for (name, content, words) in [
        ("empty.wasm", vec![], ["is empty", "rename it into place"]),
        ("half.wasm", whole[..whole.len() / 2].to_vec(), ["ends in the middle", "rename it"]),
        ("bytes.wasm", vec![0xff, 0], ["no WebAssembly module", "give the file"]),
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
        ground.write(name, content);
        ground.manifest("", &[topic("work", name, "")]);
        let said = refused(&ground, BAD_INPUT);
        for word in words.into_iter().chain([name, "topic work"]) {
            assert!(said.contains(word), "{word:?} is not in:\n{said}");
        }
    }
}

#[test]
fn every_bad_module_is_named_at_once() {
    let ground = ground();
    ground.write("good.wat", Handler::says("good").wat());
    ground.write("bad.wat", "(module");
    ground.manifest(
        "",
        &[
            topic("good", "good.wat", ""),
            topic("bad", "bad.wat", ""),
            topic("gone", "gone.wasm", ""),
        ],
    );
    let said = refused(&ground, BAD_INPUT);
    assert!(
        said.contains("bad.wat is refused") && said.contains("gone.wasm cannot be read"),
        "{said}"
    );
    assert!(!said.contains("topic good"), "{said}");
}

#[test]
fn manifests_that_cannot_be_read() {
    let ground = ground();
    ground.write("work.wat", hostile("returns_seven"));
    for (topics, words) in [
        ("[topics.work\nhandler = \"work.wat\"", ["duebox.toml", "topics.work"]),
        ("[topics.work]\nhandler = \"work.wat\"\nspeed = 9", ["speed", "hint"]),
        ("[topics.work]\nhandler = \"work.wat\"\nconcurency = 9", ["concurency", "`concurrency`?"]),
        ("[topics.work]\nhandler = \"work.wat\"\nttr = \"0s\"", ["ttr", "hint"]),
        ("[topics.work]\nhandler = \"work.wat\"\nttr = 30", ["ttr", "hint"]),
        ("[topics.\"a b\"]\nhandler = \"work.wat\"", ["a b", "hint"]),
        ("[topics.work]\nhandler = \"${DUEBOX_TEST_UNSET}\"", ["DUEBOX_TEST_UNSET", "hint"]),
        ("[server]\ncors = [\"https://*.example\"]", ["cors", "each is named by itself"]),
    ] {
        ground.manifest("", &[topics.to_owned()]);
        let said = refused(&ground, BAD_INPUT);
        for word in words {
            assert!(said.contains(word), "{word:?} is not in:\n{said}");
        }
    }
    std::fs::remove_file(ground.path("duebox.toml")).unwrap();
    let said = refused(&ground, BAD_INPUT);
    assert!(said.contains("duebox.toml") && said.contains("hint"), "{said}");
}

#[test]
fn a_redis_that_may_throw_jobs_away() {
    let ground = Ground::on(RedisServer::with_args(&["--maxmemory-policy", "allkeys-lru"]));
    with_a_good_topic(&ground);
    let said = refused(&ground, FAILED);
    for word in ["allkeys-lru", "evict", "CONFIG SET maxmemory-policy noeviction"] {
        assert!(said.contains(word), "{said}");
    }
    ground.redis.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    ground.start();
}

#[test]
fn a_redis_that_is_too_old() {
    let ground = Ground::new();
    with_a_good_topic(&ground);
    let old = older_version(&ground.redis);
    let text = std::fs::read_to_string(ground.path("duebox.toml")).unwrap();
    ground.write(
        "duebox.toml",
        text.replace(&ground.redis.url(), &format!("redis://127.0.0.1:{old}/0")),
    );
    let said = refused(&ground, FAILED);
    assert!(said.contains("is version \\\"6.") || said.contains("is version \"6."), "{said}");
    assert!(said.contains("7.0 or newer"), "{said}");
}

#[test]
fn a_redis_that_is_not_there_or_wants_a_password() {
    let mut ground = Ground::on(RedisServer::with_args(&["--requirepass", "open sesame"]));
    with_a_good_topic(&ground);
    let said = unconnected(&ground);
    assert!(said.contains("NOAUTH") || said.contains("uthentication"), "{said}");
    let secret = ground.write("secret", "open sesame\n");
    let text = std::fs::read_to_string(ground.path("duebox.toml")).unwrap();
    let password = format!("poll = \"200ms\"\npassword = {{ file = \"{}\" }}", secret.display());
    ground.write("duebox.toml", text.replace("poll = \"200ms\"", &password));
    drop(ground.start());
    ground.redis.stop();
    let said = unconnected(&ground);
    let address = format!("127.0.0.1:{}", ground.redis.port());
    assert!(said.contains(&address) && said.contains("start it, or correct redis.url"), "{said}");
    assert!(!said.contains("sesame"), "the password is in the log: {said}");
}

#[test]
fn missing_persistence_is_warned_about_and_no_more() {
    let warned = |ground: &Ground| {
        with_a_good_topic(ground);
        let daemon = ground.start();
        daemon
            .count(|l| l.has("level", "WARN") && l.message().starts_with("Redis persists nothing"))
    };
    assert_eq!((warned(&Ground::new()), warned(&Ground::persistent())), (1, 0));
}

fn with_a_good_topic(ground: &Ground) {
    ground.write("work.wat", Handler::says("ran").wat());
    ground.manifest("", &[topic("work", "work.wat", "")]);
}

/// A daemon that gets no connection: what it said.
fn unconnected(ground: &Ground) -> String {
    let mut daemon = Daemon::start(&ground.path("duebox.toml"));
    let status = daemon.wait_exit();
    let said: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    assert_eq!(status.code(), Some(FAILED), "{said:?}");
    said.join("\n")
}

/// The port of a way to this Redis on which it says that it is of version 6.
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
