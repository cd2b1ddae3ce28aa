//! Handlers in Python: verdicts, limits, isolation, imports, reload, and errors with their place.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{is_handler_line, is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_payload};

/// A fixture. The first one has the engine compiled, which takes 15 s of processor time: otherwise each of the
/// daemons that start at the same time would compile it.
pub(super) fn fixture() -> Fixture {
    static COMPILED: Once = Once::new();
    COMPILED.call_once(|| {
        let fixture = Fixture::new();
        fixture.write("first.py", "def handle(order): pass\n");
        fixture.manifest("", &[topic("first", "first.py", "")]);
        let (code, text) = check(&fixture);
        assert_eq!(code, Some(0), "{text}");
    });
    Fixture::new()
}

/// Writes files, with their folders.
fn write(fixture: &Fixture, files: &[(&str, &str)]) {
    for (name, content) in files {
        fs::create_dir_all(fixture.path(name).parent().unwrap()).unwrap();
        fixture.write(name, content);
    }
}

/// A daemon with a topic for each source; the topic is named like the file.
fn serve(fixture: &Fixture, sources: &[(&str, &str)], keys: &str) -> Daemon {
    write(fixture, sources);
    let topics = sources.iter().map(|(file, _)| topic(file.split('.').next().unwrap(), file, keys));
    let topics: Vec<String> = topics.collect();
    fixture.manifest("", &topics);
    fixture.start()
}

/// The line of the first attempt of a topic's only job.
fn first_attempt(daemon: &Daemon, topic: &str) -> LogLine {
    daemon.wait_for_line(topic, |line| is_verdict(line) && line.has("topic", topic))
}

fn wrote(text: &str) -> impl Fn(&LogLine) -> bool {
    let text = text.to_owned();
    move |line| is_handler_line(line) && line.message() == text
}

fn serves_anew(line: &LogLine) -> bool {
    line.message().starts_with("a new module serves")
}

/// `duebox check` in the folder of a fixture: its exit code and what it writes.
fn check(fixture: &Fixture) -> (Option<i32>, String) {
    let mut command = Command::new(duebox_binary());
    command.arg("check").current_dir(fixture.path(".")).env_remove("DUEBOX_MANIFEST");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

#[test]
fn what_a_handler_returns_is_the_verdict() {
    let fixture = fixture();
    let sources = [
        ("nothing.py", "def handle(order): pass"),
        ("dropped.py", "def handle(order): return 'drop'"),
        ("later.py", "from duebox import snooze\nasync def handle(order): return snooze(60)"),
        (
            "busy.py",
            "from duebox import nack\ndef handle(order): return nack('busy', retry_after=60)",
        ),
        ("thrown.py", "def handle(order):\n    raise TypeError('no')"),
        ("wrong.py", "def handle(order): return 42"),
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
    for part in ["TypeError: no", "thrown.py:2:"] {
        assert!(thrown.text().contains(part), "{part} is missing: {}", thrown.text());
    }
    let snoozed =
        daemon.wait_for_line("snoozed", |line| is_verdict(line) && line.has("topic", "later"));
    assert!(snoozed.text().contains("snooze"), "{}", snoozed.text());
}

#[test]
fn limits_end_a_source_with_the_class_of_the_limit() {
    // All but the loop have the time that they need on a busy machine.
    for (file, source, ttr, class) in [
        ("loop.py", "def handle(order):\n    while True: pass", "5s", "timeout"),
        (
            "hog.py",
            "def handle(order):\n    all = []\n    while True: all.append(bytes(1000))",
            "60s",
            "out_of_memory",
        ),
        (
            "deep.py",
            "def deep(n): return deep(n + 1) + 1\ndef handle(order): deep(0)",
            "60s",
            "stack_overflow",
        ),
    ] {
        let (fixture, topic) = (fixture(), file.split('.').next().unwrap());
        let keys = format!("ttr = \"{ttr}\"\nmax_attempts = 1");
        let daemon = serve(&fixture, &[(file, source)], &keys);
        push(&fixture, topic, "1", 0);
        let attempt = first_attempt(&daemon, topic);
        assert!(attempt.has("class", class), "{topic}: {}", attempt.text());
    }
}

/// The program is evaluated once. What it drew then is the same for all jobs; what a job draws is its own, and no
/// job sees what another left.
#[test]
fn jobs_of_one_snapshot_have_their_own_random_numbers_and_memory() {
    const JOBS: usize = 30;
    let fixture = fixture();
    let source = "import random, secrets, uuid
seen = 0
first = random.random()
own = random.Random()
def handle(order):
    global seen
    seen += 1
    print('drew', first, seen, random.random(), own.random(), uuid.uuid4(), secrets.token_hex())
";
    let daemon = serve(&fixture, &[("draw.py", source)], "");
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
    for at in 2..6 {
        assert_eq!(distinct(at), JOBS, "{at}: {words:?}");
    }
}

#[test]
fn what_is_not_granted_is_an_error_that_names_the_grant() {
    let fixture = fixture();
    let handler = |import: &str, call: &str| {
        format!("from duebox import {import}\ndef handle(order): {call}\n")
    };
    let sources = [
        ("store.py", handler("kv", "kv.get('a')")),
        ("web.py", handler("http", "http.get('http://127.0.0.1:1/')")),
        ("follow.py", handler("push", "push('other')")),
        ("setting.py", handler("job", "job.config('shop')")),
    ];
    let sources: Vec<(&str, &str)> =
        sources.iter().map(|(file, source)| (*file, source.as_str())).collect();
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
    let fixture = fixture();
    fixture.write(
        "first.py",
        "from duebox import job, kv, push, result
def handle(order):
    total = kv.add('sum', order['by'])
    push('second', {'sum': total, 'from': job.id}, id=f'after-{job.id}', headers={'lang': 'de'})
    result({'sum': total})
",
    );
    fixture.write(
        "second.py",
        "import logging
from duebox import job
def handle(order):
    logging.warning('got %s %s %s %s', order['sum'], order['from'], job.id, job.headers['lang'])
",
    );
    let grants = "[topics.first.sandbox]\nkv = true\npush = [\"second\"]";
    fixture.manifest("", &[topic("first", "first.py", grants), topic("second", "second.py", "")]);
    let daemon = fixture.start();
    push_payload(&fixture, "first", "a", r#"{"by":3}"#);
    let line = daemon.wait_for_line("the follow-up", wrote("got 3 a after-a de"));
    assert!(line.has("level", "WARN"));
}

#[test]
fn a_saved_file_serves_without_python() {
    let fixture = fixture();
    let source = |text: &str| format!("def handle(order): print('{text}')\n");
    fixture.write("report.py", source("first"));
    fixture.manifest("", &[topic("report", "report.py", "")]);
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("PATH", fixture.path("no-programs"));
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    push(&fixture, "report", "1", 0);
    daemon.wait_for_line("the first version", wrote("first"));
    fixture.write("report.py", source("second"));
    daemon.wait_for_line("the new version", serves_anew);
    push(&fixture, "report", "2", 0);
    daemon.wait_for_line("the second version", wrote("second"));
    daemon.wait_for_line("done", |line| settled_as(line, "done") && line.has("job_id", "2"));
}

#[test]
fn a_broken_file_is_refused_with_its_place_and_the_program_in_service_stays() {
    let fixture = fixture();
    write(
        &fixture,
        &[
            ("lib/text.py", "text = 'first'\n"),
            ("main.py", "from lib.text import text\ndef handle(order): print(text)\n"),
        ],
    );
    fixture.manifest("", &[topic("main", "main.py", "")]);
    let daemon = fixture.start();
    fixture.write("lib/text.py", "text = = 'first'\n");
    let refused = daemon.wait_for_line("the refusal", |line| {
        line.has("level", "WARN") && line.text().contains("lib/text.py")
    });
    for part in ["lib/text.py:1:8", "1 | text = = 'first'"] {
        assert!(refused.text().contains(part), "{part} is missing: {}", refused.text());
    }
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("the version in service", wrote("first"));
    fixture.write("lib/text.py", "text = 'second'\n");
    daemon.wait_for_line("the new version", serves_anew);
    push(&fixture, "main", "2", 0);
    daemon.wait_for_line("the second version", wrote("second"));
}

#[test]
fn a_handler_imports_modules_next_to_it_and_packages_of_vendor() {
    let fixture = fixture();
    write(
        &fixture,
        &[
            (
                "handlers/main.py",
                "import json
from money import double
from pad import pad
from pad.inner import inner
try:
    import numpy
except ImportError:
    numpy = None
def handle(order):
    print(pad(double(21)), inner(), json.dumps(numpy))
",
            ),
            ("handlers/money.py", "def double(a): return 2 * a\n"),
            ("handlers/vendor/pad/__init__.py", "from .pad import pad\n"),
            ("handlers/vendor/pad/pad.py", "def pad(a): return str(a).rjust(4, '0')\n"),
            (
                "handlers/vendor/pad/inner/__init__.py",
                "from ..pad import pad\ndef inner(): return pad('x')\n",
            ),
            // Not imported, and so not read.
            ("handlers/vendor/pad/broken.py", "def ("),
        ],
    );
    fixture.manifest("", &[topic("main", "handlers/main.py", "")]);
    let daemon = fixture.start();
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("what was imported", wrote("0042 000x null"));
}

#[test]
fn a_handler_imports_pure_packages_of_the_virtual_environment_that_the_manifest_names() {
    let fixture = fixture();
    write(
        &fixture,
        &[
            ("venv/pyvenv.cfg", "version = 3.13.1\n"),
            (
                "venv/lib/python3.13/site-packages/slug/__init__.py",
                "try:
    from ._fast import slug
except ImportError as error:
    why = str(error)
    def slug(text): return text.lower().replace(' ', '-')
",
            ),
            ("venv/lib/python3.13/site-packages/slug/_fast.cpython-313-x86_64-linux-gnu.so", ""),
            ("venv/lib/python3.13/site-packages/all_c/__init__.py", "from all_c import core\n"),
            ("venv/lib/python3.13/site-packages/all_c/core.abi3.so", ""),
            (
                "handlers/main.py",
                "from slug import slug, why\ndef handle(order): print(slug('A b'), why)\n",
            ),
            ("handlers/compiled.py", "\nimport all_c\ndef handle(order): pass\n"),
        ],
    );
    let main = topic("main", "handlers/main.py", "");
    let path = "python_path = \"venv\"";
    fixture.manifest(path, std::slice::from_ref(&main));
    let daemon = fixture.start();
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("what was imported", |line| {
        is_handler_line(line)
            && line.message().starts_with("a-b slug._fast is a compiled module (slug/_fast.cpython")
    });
    fixture.manifest(path, &[topic("compiled", "handlers/compiled.py", "")]);
    let (code, text) = check(&fixture);
    assert_eq!(code, Some(2), "{text}");
    for part in ["all_c.core is a compiled module (all_c/core.abi3.so)", "compiled.py:2:1"] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    fixture.manifest("python_path = \"absent\"", &[main]);
    let (code, text) = check(&fixture);
    assert!(code == Some(2) && text.contains("absent cannot be read"), "{text}");
}

/// Each file is wrong in its own way. `duebox check` shows all of them.
#[test]
fn check_shows_the_file_the_line_and_the_remedy() {
    let fixture = fixture();
    let files = [
        ("syntax.py", "a = 1\ndef handle(: pass\n", "syntax.py:2:12"),
        ("absent.py", "\nimport lacking\ndef handle(order): pass\n", "absent.py:2:1"),
        ("advice.py", "import requests\ndef handle(order): pass\n", "use http of duebox"),
        ("top.py", "a = None\na.b\ndef handle(order): pass\n", "top.py:2:1"),
        ("none.py", "def run(order): pass\n", "defines no function handle"),
        ("endless.py", "while True: pass\n", "its top level failed: it did not end within 10 s"),
        ("reads.py", "from duebox import job\njob.id\n", "there is no job while"),
    ];
    let topics = files.map(|(file, source, _)| {
        fixture.write(file, source);
        topic(file.split('.').next().unwrap(), file, "")
    });
    fixture.manifest("", &topics);
    let (code, text) = check(&fixture);
    assert_eq!(code, Some(2), "{text}");
    for (file, _, part) in files {
        assert!(text.contains(part), "{file}: {part:?} is missing in: {text}");
    }
}

#[test]
fn without_its_engine_a_handler_is_refused_with_the_place_and_the_remedy() {
    let fixture = fixture();
    fixture.write("report.py", "def handle(order): pass\n");
    fixture.manifest("languages = \"nowhere\"", &[topic("report", "report.py", "")]);
    let (code, text) = check(&fixture);
    assert_eq!(code, Some(2), "{text}");
    let place = Path::new("nowhere").join("python.wasm").display().to_string();
    let remedies = ["-python`", "-all-in-one`", "wheel", "npm package", "runner.languages"];
    for part in ["the Python engine is missing", &place].into_iter().chain(remedies) {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}
