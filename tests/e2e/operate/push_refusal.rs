//! `duebox push` with invalid input changes no key of Redis.

use std::process::Command;

use duebox_harness::{duebox_binary, output_with};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::producer::push_many;
use crate::support::redis_state::key;

struct Ended {
    code: Option<i32>,
    printed: String,
}

fn duebox(fixture: &Fixture, args: &[&str], input: &str) -> Ended {
    let mut command = Command::new(duebox_binary());
    command.args(args).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL");
    let output = output_with(&mut command, input.as_bytes()).unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code(), printed }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("work", "work.wat", "sandbox.payload = \"100B\"")]);
    push_many(&fixture, "work", 3);
    fixture
}

#[test]
fn bad_input_changes_no_key() {
    let fixture = fixture();
    // A command may write the rules of the manifest before it reads what it pushes.
    let dump = || {
        let mut keys = fixture.store().dump();
        keys.remove(&key("work", "meta"));
        keys
    };
    let before = dump();
    let (long_id, long_payload) = ("x".repeat(257), "x".repeat(101));
    fixture.write("large", &long_payload);
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
        (&["push", "work", "{}", "--in", "-1s"], "is not a duration"),
        (&["push", "work", "{}", "--in", "4000d"], "longer than ten years"),
        (&["push", "work", "{}", "--at", "2020-01-01T00:00:00Z"], "is in the past"),
        (&["push", "work", "{}", "--at", "9000-01-01T00:00:00Z"], "ten years away"),
        (&["push", "work", "{}", "--ttr", "0s"], "from 1ms to 24h"),
        (&["push", "work", "{}", "--max-attempts", "0"], "0 is not in"),
    ] {
        let ended = duebox(&fixture, args, &lines);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.printed);
        assert!(ended.printed.contains(word), "{args:?}: {}", ended.printed);
        assert!(ended.printed.contains("hint: "), "{args:?}: {}", ended.printed);
        assert_eq!(dump(), before, "{args:?}");
    }
}

#[test]
fn a_live_id_is_refused_and_unchanged() {
    let fixture = fixture();
    // A free id is stored, so Redis itself does not refuse.
    let ended = duebox(&fixture, &["push", "work", "{\"new\":1}", "--id", "free"], "");
    assert_eq!(ended.code, Some(0), "{}", ended.printed);
    assert!(fixture.store().live("work").contains("free"));
    let before = fixture.store().dump();
    for id in ["1", "free"] {
        let ended = duebox(&fixture, &["push", "work", "{\"new\":2}", "--id", id], "");
        assert_eq!(ended.code, Some(1), "{}", ended.printed);
        assert!(
            ended.printed.contains(&format!("{id} was not pushed to work")),
            "{}",
            ended.printed
        );
        assert_eq!(fixture.store().dump(), before);
    }
}
