//! What makes no sense is refused by name, with a hint, before anything is done.

use crate::ground::{Ground, NOWHERE, folder, say};

#[test]
fn bad_input_is_refused_by_name_with_a_hint_before_anything_is_done() {
    let folder = folder(NOWHERE);
    for (args, word) in [
        (&["push", "slow", "--ttl", "soon"][..], "\"soon\" is not a duration"),
        (&["push", "slow", "--priority", "urgent"], "choose high, normal or low"),
        (&["push", "slow", "--key", ""], "is not a valid key"),
        (&["push", "slow", "--key", "a\nb"], "is not a valid key"),
        (&["push", "slow", "--header", "x"], "write NAME=VALUE"),
        (&["push", "slow", "--header", "X-Y=1"], "not a header name"),
        (&["push", "slow", "--header", "x=a\nb"], "control character"),
        (&["push", "slow", "--backoff", "2m,,1h"], "\"\" is not a duration"),
        (&["push", "slow", "--max-snoozes", "1000001"], "not in 0..=1000000"),
        (&["push", "slow", "--max-crashes", "0"], "not in 1..=999"),
        (&["push", "sms", "--id", "1"], "no topic sms"),
        (&["push", "slow", "{}", "--jobs", "-"], "cannot be used with"),
        (&["push", "slow", "--jobs", "-", "--ttl", "1s"], "cannot be used with"),
        (&["push", "slow", "--jobs", "-", "--in", "1s"], "cannot be used with"),
        (&["push", "slow", "--jobs", "none.ndjson"], "none.ndjson cannot be read"),
        (&["get", "slow"], "required"),
        (&["get", "slow", ""], "must not be empty"),
        (&["dead"], "Look at dead jobs"),
        (&["dead", "list", "slow", "--class", "sneeze"], "there is no class \"sneeze\""),
        (&["dead", "list", "slow", "--limit", "0"], "not in 1..=1000"),
        (&["dead", "list", "slow", "--limit", "1001"], "not in 1..=1000"),
        (&["dead", "list", "slow", "--after", "yesterday"], "is not a cursor"),
        (&["dead", "list", "slow", "--newer-than", "1"], "\"1\" is not a duration"),
        (&["dead", "requeue", "slow"], "required"),
        (&["dead", "requeue", "slow", "7", "--all"], "cannot be used with"),
        (&["requeue", "slow", "--all", "--class", "trap"], "cannot be used with"),
        (&["requeue", "slow", "7", "--class", "trap"], "ids and a filter"),
        (&["dead", "purge", "slow"], "required"),
        (&["dead", "purge", "slow", "--all", "--older-than", "1s"], "cannot be used with"),
        (&["dead", "purge", "slow", "7", "--newer-than", "1s"], "ids and a filter"),
        (&["done"], "Look at jobs that are done"),
        (&["reschedule", "slow", "7"], "required"),
        (&["reschedule", "slow", "7", "--in", "1s", "--at", "soon"], "cannot be used with"),
        (&["reschedule", "slow", "7", "--at", "2020-01-01T00:00:00Z"], "in the past"),
        (&["reschedule", "slow", "7", "--in", "4000d"], "longer than ten years"),
        (&["run-now", "slow"], "required"),
        (&["pause"], "required"),
    ] {
        let said = say(folder.path(), args, b"");
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
        assert!(said.err.contains("hint: "), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}");
    }
}

#[test]
fn a_topic_that_nobody_knows_is_refused_and_what_only_redis_knows_is_served() {
    let ground = Ground::new();
    for args in [
        &["pause", "slwo"][..],
        &["dead", "list", "slwo"],
        &["dead", "purge", "slwo", "--all"],
        &["requeue", "slwo", "--all"],
        &["done", "list", "slwo"],
    ] {
        let said = ground.say(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains("did you mean slow?"), "{args:?}: {}", said.err);
    }
    ground.redis.cli(&["SADD", "duebox:topics", "elsewhere"]);
    assert_eq!(ground.ok(&["pause", "elsewhere"]), "paused elsewhere\n");
    // A pattern's topic needs no edit, and no push before it.
    assert_eq!(ground.ok(&["pause", "sms.eu"]), "paused sms.eu\n");
    assert!(ground.ok(&["push", "sms.eu", "hi", "--id", "1"]).starts_with("pushed 1 to sms.eu"));
}

#[test]
fn help_goes_to_stdout_and_teaches() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        &["get"][..],
        &["reschedule"],
        &["run-now"],
        &["pause"],
        &["resume"],
        &["dead", "list"],
        &["dead", "show"],
        &["dead", "requeue"],
        &["dead", "purge"],
        &["done", "list"],
    ] {
        let said = say(folder.path(), &[&["help"], name].concat(), b"");
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{name:?}");
        assert!(said.out.contains("Examples:\n  duebox "), "{name:?}");
    }
}
