//! Handlers that are bound as source: verdicts, limits, isolation, grants and services.

use std::collections::BTreeSet;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{is_handler_line, is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_payload};

/// A daemon with a topic for each source; the topic is named like the file.
fn serve(fixture: &Fixture, sources: &[(&str, &str)], keys: &str) -> Daemon {
    let named = |file: &str| file.split('.').next().unwrap().to_owned();
    let topics = sources.iter().map(|(file, source)| {
        fixture.write(file, source);
        topic(&named(file), file, keys)
    });
    let topics: Vec<String> = topics.collect();
    fixture.manifest("", &topics);
    fixture.start()
}

/// The line of the first attempt of a topic's only job.
fn first_attempt(daemon: &Daemon, topic: &str) -> LogLine {
    daemon.wait_for_line(topic, |line| is_verdict(line) && line.has("topic", topic))
}

#[test]
fn what_a_handler_returns_is_the_verdict() {
    let fixture = Fixture::new();
    let sources = [
        ("nothing.ts", "export default function handle(order: { id?: number }): void {}"),
        ("dropped.js", "export default () => 'drop'"),
        ("later.mjs", "import { snooze } from 'duebox'; export default async () => snooze(60_000)"),
        (
            "busy.js",
            "import { nack } from 'duebox'; export default () => nack('busy', { retryAfter: 60_000 })",
        ),
        (
            "thrown.ts",
            "interface A {}\nexport default async (a: A) => { throw new TypeError('no') }",
        ),
        ("wrong.js", "export default () => 42"),
    ];
    let daemon = serve(&fixture, &sources, "");
    for (file, _) in sources {
        push(&fixture, file.split('.').next().unwrap(), "1", 0);
    }
    let attempt = |topic| first_attempt(&daemon, topic);
    assert!(settled_as(&attempt("nothing"), "done"));
    assert!(attempt("dropped").has("class", "drop"));
    assert!(attempt("busy").has("class", "nack"));
    assert!(attempt("wrong").has("class", "bad_verdict"));
    let thrown = attempt("thrown");
    assert!(thrown.has("class", "nack"));
    for part in ["TypeError: no", "thrown.ts:2:"] {
        assert!(thrown.text().contains(part), "{part} is missing: {}", thrown.text());
    }
    let snoozed =
        daemon.wait_for_line("snoozed", |line| is_verdict(line) && line.has("topic", "later"));
    assert!(snoozed.text().contains("snooze"), "{}", snoozed.text());
}

#[test]
fn limits_end_a_source_with_the_class_of_the_limit() {
    let endless = [
        ("loop.js", "export default () => { for (;;) {} }"),
        ("microtasks.js", "export default async () => { for (;;) await null }"),
    ];
    each_ends(&endless, "2s", "timeout");
    // These have the time that they need on a busy machine.
    let hog = "export default () => { const all = []; for (;;) all.push(new Array(1000).fill(1)) }";
    each_ends(&[("hog.js", hog)], "60s", "out_of_memory");
    let deep = "const deep = (n) => deep(n + 1) + 1; export default () => deep(0)";
    each_ends(&[("deep.js", deep)], "60s", "stack_overflow");
}

/// Runs a job of each source.
fn each_ends(sources: &[(&str, &str)], ttr: &str, class: &str) {
    let fixture = Fixture::new();
    let daemon = serve(&fixture, sources, &format!("ttr = \"{ttr}\"\nmax_attempts = 1"));
    for (file, _) in sources {
        let topic = file.split('.').next().unwrap();
        push(&fixture, topic, "1", 0);
        let attempt = first_attempt(&daemon, topic);
        assert!(attempt.has("class", class), "{topic}: {}", attempt.text());
    }
}

/// The program is evaluated once. What it drew then is the same for all jobs; what a job draws is its own, and no
/// job sees what another left.
#[test]
fn jobs_of_one_snapshot_have_their_own_random_numbers_and_memory() {
    const JOBS: usize = 50;
    let fixture = Fixture::new();
    let source = "let seen = 0; const first = Math.random();
        export default () => { seen++; console.log('drew', first, seen, Math.random(), crypto.randomUUID()); }";
    let daemon = serve(&fixture, &[("draw.js", source)], "");
    for id in 0..JOBS {
        push(&fixture, "draw", &id.to_string(), 0);
    }
    let is_drawn = |line: &LogLine| is_handler_line(line) && line.text().contains("drew");
    eventually("all jobs", || daemon.count(is_drawn) == JOBS && verdicts(&daemon).len() == JOBS);
    let lines: Vec<LogLine> = daemon.lines().into_iter().filter(is_drawn).collect();
    let words = lines.iter().map(|line| {
        let said = line.message().split_whitespace().skip(1).map(str::to_owned);
        said.collect::<Vec<String>>()
    });
    let words: Vec<Vec<String>> = words.collect();
    let distinct = |at: usize| words.iter().map(|words| &words[at]).collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(0), distinct(1)), (1, 1), "{words:?}");
    assert_eq!((distinct(2), distinct(3)), (JOBS, JOBS), "{words:?}");
}

#[test]
fn what_is_not_granted_is_an_error_that_names_the_grant() {
    let fixture = Fixture::new();
    let sources = [
        ("store.js", "import { kv } from 'duebox'; export default () => kv.get('a')"),
        ("web.js", "export default () => fetch('http://127.0.0.1:1/')"),
        ("follow.js", "import { push } from 'duebox'; export default () => push('other')"),
        ("setting.js", "import { job } from 'duebox'; export default () => job.config('shop')"),
    ];
    let daemon = serve(&fixture, &sources, "");
    for (topic, grant) in [
        ("store", "kv = true"),
        ("web", "http"),
        ("follow", "sandbox.push"),
        ("setting", "sandbox.config"),
    ] {
        push(&fixture, topic, "1", 0);
        let attempt = first_attempt(&daemon, topic);
        assert!(attempt.has("class", "nack"), "{topic}: {}", attempt.text());
        assert!(attempt.text().contains(grant), "{topic}: {}", attempt.text());
    }
}

#[test]
fn a_source_uses_the_store_and_pushes_jobs_of_other_topics() {
    let fixture = Fixture::new();
    fixture.write(
        "first.ts",
        "import { job, kv, push, result } from 'duebox';
        export default ({ by }: { by: number }) => {
          const sum = kv.add('sum', by);
          push('second', { sum, from: job.id }, { id: `after-${job.id}`, headers: { lang: 'de' } });
          result({ sum });
        }",
    );
    fixture.write(
        "second.ts",
        "import { job, log } from 'duebox';
        export default (said: { sum: number; from: string }) =>
          log.warn('got', said.sum, said.from, job.id, job.headers.lang, job.attempt);",
    );
    let grants = "[topics.first.sandbox]\nkv = true\npush = [\"second\"]";
    fixture.manifest("", &[topic("first", "first.ts", grants), topic("second", "second.ts", "")]);
    let daemon = fixture.start();
    push_payload(&fixture, "first", "a", r#"{"by":3}"#);
    push_payload(&fixture, "first", "b", r#"{"by":4}"#);
    let got = |line: &LogLine| is_handler_line(line) && line.message().starts_with("got ");
    eventually("both follow-ups", || daemon.count(got) == 2);
    let lines: Vec<LogLine> = daemon.lines().into_iter().filter(got).collect();
    assert!(lines.iter().all(|line| line.has("level", "WARN")));
    let last = |line: &&LogLine| line.message().starts_with("got 7 ");
    let last = lines.iter().find(last).unwrap_or_else(|| panic!("{lines:?}"));
    let words: Vec<&str> = last.message().split(' ').collect();
    assert!(
        [["got", "7", "a", "after-a", "de", "1"], ["got", "7", "b", "after-b", "de", "1"]]
            .iter()
            .any(|wanted| words == wanted)
    );
}
