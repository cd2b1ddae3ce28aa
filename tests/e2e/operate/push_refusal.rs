//! `duebox push` with bad input, on a Redis that holds jobs: not one key changes.

use std::io::Write;
use std::process::{Command, Stdio};

use duebox_harness::duebox_binary;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::producer::push_many;

struct Ended {
    code: Option<i32>,
    said: String,
}

fn duebox(ground: &Ground, args: &[&str], input: &str) -> Ended {
    let mut child = Command::new(duebox_binary())
        .args(args)
        .current_dir(ground.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses before it reads closes the pipe: that is its right.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code(), said }
}

fn ground() -> Ground {
    let ground = Ground::new();
    ground.write("work.wat", Handler::says("ran").wat());
    ground.manifest("", &[topic("work", "work.wat", "sandbox.payload = \"100B\"")]);
    push_many(&ground, "work", 3);
    ground
}

#[test]
fn bad_input_leaves_every_key_as_it_was() {
    let ground = ground();
    let before = ground.store().dump();
    let (long_id, long_payload) = ("x".repeat(257), "x".repeat(101));
    ground.write("large", &long_payload);
    let lines = format!("one\ntwo\n{long_payload}\nfour\n");
    for (args, word) in [
        (&["push", "wrk", "{}"][..], "did you mean work?"),
        (&["push", "{work}", "{}"], "holds '{'"),
        (&["push", "", "{}"], "must not be empty"),
        (&["push", "work", "{}", "--id", "a b"], "holds ' '"),
        (&["push", "work", "{}", "--id", "bäd"], "holds 'ä'"),
        (&["push", "work", "{}", "--id", ""], "must not be empty"),
        (&["push", "work", "{}", "--id", &long_id], "257 bytes long"),
        (&["push", "work", &long_payload], "longer than 100"),
        (&["push", "work", "@large"], "longer than 100"),
        (&["push", "work", "@nothing"], "nothing cannot be read"),
        (&["push", "work", "-"], "longer than 100"),
        (&["push", "work", "-", "--lines"], "longer than 100"),
        (&["push", "work", "{}", "--in", "-1s"], "is no duration"),
        (&["push", "work", "{}", "--in", "4000d"], "longer than ten years"),
        (&["push", "work", "{}", "--at", "2020-01-01T00:00:00Z"], "is in the past"),
        (&["push", "work", "{}", "--at", "9000-01-01T00:00:00Z"], "ten years away"),
        (&["push", "work", "{}", "--ttr", "0s"], "from 1ms to 24h"),
        (&["push", "work", "{}", "--max-attempts", "0"], "0 is not in"),
    ] {
        let ended = duebox(&ground, args, &lines);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.said);
        assert!(ended.said.contains(word), "{args:?}: {}", ended.said);
        assert!(ended.said.contains("hint: "), "{args:?}: {}", ended.said);
        assert_eq!(ground.store().dump(), before, "{args:?}");
    }
}

#[test]
fn an_id_that_is_alive_is_refused_and_stays_what_it_was() {
    let ground = ground();
    // An id that is free is stored: the refusals here are not those of a mute Redis.
    let ended = duebox(&ground, &["push", "work", "{\"new\":1}", "--id", "free"], "");
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(ground.store().live("work").contains("free"));
    let before = ground.store().dump();
    for id in ["1", "free"] {
        let ended = duebox(&ground, &["push", "work", "{\"new\":2}", "--id", id], "");
        assert_eq!(ended.code, Some(1), "{}", ended.said);
        assert!(ended.said.contains(&format!("{id} was not pushed to work")), "{}", ended.said);
        assert_eq!(ground.store().dump(), before);
    }
}
