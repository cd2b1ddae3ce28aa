//! Bad input is refused with a hint before anything is done.

use crate::fixture::{Fixture, NOWHERE, folder, run};

#[test]
fn bad_input_is_refused_with_a_hint_before_anything_is_done() {
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
        (&["dead"], "List, show, requeue or purge dead jobs"),
        (&["dead", "list", "slow", "--class", "sneeze"], "\"sneeze\" is not a failure class"),
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
        (&["done"], "List done jobs"),
        (&["reschedule", "slow", "7"], "required"),
        (&["reschedule", "slow", "7", "--in", "1s", "--at", "soon"], "cannot be used with"),
        (&["reschedule", "slow", "7", "--in", "4000d"], "longer than ten years"),
        (&["run-now", "slow"], "required"),
        (&["pause"], "required"),
    ] {
        let output = run(folder.path(), args, b"");
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
        assert!(output.err.contains(word), "{args:?}: {}", output.err);
        assert!(output.err.contains("hint: "), "{args:?}: {}", output.err);
        assert_eq!(output.out, "", "{args:?}");
    }
}

#[test]
fn unknown_topics_are_refused_and_topics_of_redis_accepted() {
    let fixture = Fixture::new();
    for args in [
        &["pause", "slwo"][..],
        &["dead", "list", "slwo"],
        &["dead", "purge", "slwo", "--all"],
        &["requeue", "slwo", "--all"],
        &["done", "list", "slwo"],
    ] {
        let output = fixture.run(args);
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
        assert!(output.err.contains("did you mean slow?"), "{args:?}: {}", output.err);
    }
    fixture.redis.cli(&["SADD", "duebox:topics", "elsewhere"]);
    assert_eq!(fixture.ok(&["pause", "elsewhere"]), "paused elsewhere\n");
    // A topic of a pattern needs no edit of the manifest. Before its first push its name may be a typo.
    assert!(fixture.run(&["pause", "sms.eu"]).err.contains("there is no topic sms.eu"));
    assert!(fixture.ok(&["push", "sms.eu", "hi", "--id", "1"]).starts_with("pushed 1 to sms.eu"));
    assert_eq!(fixture.ok(&["pause", "sms.eu"]), "paused sms.eu\n");
}

#[test]
fn help_goes_to_stdout_and_has_examples() {
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
        let output = run(folder.path(), &[&["help"], name].concat(), b"");
        assert_eq!((output.code, output.err.as_str()), (0, ""), "{name:?}");
        assert!(output.out.contains("Examples:\n  duebox "), "{name:?}");
    }
}
