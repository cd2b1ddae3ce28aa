//! What serves modules serves handlers that are bound as source, in TypeScript and in Python: smoke cases, canary,
//! rollback, pins, the breaker, warm instances, and reload under a running job.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually};
use serde_json::Value;

use super::python;
use crate::support::fixture::{Fixture, topic};
use crate::support::log::{handler_lines, is_handler_line, is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_ids, push_many};

const TOPIC: &str = "work";
const LANGUAGES: [Language; 2] = [Language::TypeScript, Language::Python];

#[derive(Debug, Clone, Copy)]
enum Language {
    TypeScript,
    Python,
}

impl Language {
    fn fixture(self) -> Fixture {
        match self {
            Self::TypeScript => Fixture::new(),
            Self::Python => python::fixture(),
        }
    }

    fn file(self, name: &str) -> String {
        match self {
            Self::TypeScript => format!("{name}.ts"),
            Self::Python => format!("{name}.py"),
        }
    }

    /// The handler's file.
    fn handler(self) -> String {
        self.file("work")
    }

    /// A program that logs a word and acks.
    fn acks(self, word: &str) -> String {
        match self {
            Self::TypeScript => format!(
                "interface Order {{ id?: number }}
                export default (order: Order): void => {{ console.log('{word}') }};\n"
            ),
            Self::Python => format!("def handle(order: dict):\n    print('{word}')\n"),
        }
    }

    /// A program that logs a word and nacks.
    fn nacks(self, word: &str) -> String {
        match self {
            Self::TypeScript => format!(
                "import {{ nack }} from 'duebox';
                export default (order: object) => {{ console.log('{word}'); return nack('no') }};\n"
            ),
            Self::Python => format!(
                "from duebox import nack\ndef handle(order):\n    print('{word}')\n    return nack('no')\n"
            ),
        }
    }

    /// A topic with this handler and these keys.
    fn topic(self, keys: &str) -> String {
        topic(TOPIC, &self.handler(), keys)
    }
}

fn serves_anew(line: &LogLine) -> bool {
    line.message().starts_with("a new module serves")
}

/// Writes the handler and waits until it serves.
fn swap(fixture: &Fixture, daemon: &Daemon, language: Language, source: &str) {
    let before = daemon.count(serves_anew);
    fixture.write(&language.handler(), source);
    eventually("the new program serves", || daemon.count(serves_anew) > before);
}

/// Runs jobs to the end of their attempts.
fn run_jobs(fixture: &Fixture, daemon: &Daemon, count: usize) {
    let before = daemon.count(is_verdict);
    push_many(fixture, TOPIC, count);
    eventually("the jobs are settled", || daemon.count(is_verdict) >= before + count);
}

/// What the program that ran this job logged.
fn said(daemon: &Daemon, id: &str) -> String {
    daemon.wait_for_line(id, |line| is_verdict(line) && line.has("job_id", id));
    let of_job = |line: &LogLine| is_handler_line(line) && line.has("job_id", id);
    daemon.wait_for_line(id, of_job).message().to_owned()
}

/// Pushes one job and returns what the program that ran it logged.
fn ran_on(fixture: &Fixture, daemon: &Daemon, id: &str) -> String {
    push(fixture, TOPIC, id, 0);
    said(daemon, id)
}

fn duebox(fixture: &Fixture, words: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.args(words).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap()
}

#[test]
fn a_program_that_fails_its_smoke_case_runs_no_job() {
    for language in LANGUAGES {
        let fixture = language.fixture();
        let case = format!("[[topics.{TOPIC}.smoke]]\npayload = \"{{}}\"\nexpect = \"ack\"\n");
        fixture.manifest("", &[language.topic("") + &case]);
        fixture.write(&language.handler(), language.nacks("bad"));
        let output = duebox(&fixture, &["check"]);
        assert_eq!(output.status.code(), Some(2), "{language:?}: {output:?}");

        fixture.write(&language.handler(), language.acks("good"));
        let daemon = fixture.start();
        fixture.write(&language.handler(), language.nacks("bad"));
        let refused = daemon.wait_for_line("the refusal", |line| {
            line.has("level", "WARN") && line.message().contains("the module in service stays")
        });
        for part in ["smoke case 1 of 1", "should end with ack and ended with nack", "info: bad"] {
            assert!(refused.message().contains(part), "{language:?}: {}", refused.text());
        }
        assert_eq!(ran_on(&fixture, &daemon, "after"), "good", "{language:?}");
    }
}

#[test]
fn a_canary_runs_its_share_and_the_same_jobs_at_each_attempt() {
    const JOBS: usize = 100;
    for language in LANGUAGES {
        let fixture = language.fixture();
        fixture.write(&language.handler(), language.nacks("main"));
        fixture.write(&language.file("canary"), language.nacks("canary"));
        let keys = format!(
            "max_attempts = 2\nbackoff = \"10ms\"\nbreaker = {{ failures = 0 }}\nrollback = {{ min_jobs = 0 }}\n\
             canary = {{ handler = \"{}\", percent = 50 }}",
            language.file("canary")
        );
        fixture.manifest("", &[language.topic(&keys)]);
        let daemon = fixture.start();
        push_many(&fixture, TOPIC, JOBS);
        eventually("all attempts", || daemon.count(is_verdict) == 2 * JOBS);
        let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in handler_lines(&daemon) {
            words.entry(line.id).or_default().insert(line.text);
        }
        assert_eq!(words.len(), JOBS, "{language:?}");
        assert!(words.values().all(|words| words.len() == 1), "{language:?}: a job met both");
        let on_canary = words.values().filter(|words| words.contains("canary")).count();
        // Five standard deviations of 100 jobs are 25.
        assert!((25..=75).contains(&on_canary), "{language:?}: {on_canary} of {JOBS}");
    }
}

#[test]
fn a_program_that_fails_far_more_often_is_rolled_back() {
    const MIN_JOBS: usize = 50;
    let is_rollback = |line: &LogLine| line.message().starts_with("rolled back:");
    for language in LANGUAGES {
        let fixture = language.fixture();
        fixture.write(&language.handler(), language.acks("good"));
        let keys = format!(
            "max_attempts = 1\nbreaker = {{ failures = 0 }}\nrollback = {{ window = \"1m\", min_jobs = {MIN_JOBS} }}"
        );
        fixture.manifest("", &[language.topic(&keys)]);
        let daemon = fixture.start();
        run_jobs(&fixture, &daemon, 60);
        swap(&fixture, &daemon, language, &language.nacks("bad"));
        run_jobs(&fixture, &daemon, MIN_JOBS);
        let line = daemon.wait_for_line("the rollback", is_rollback);
        assert!(line.has("topic", TOPIC), "{}", line.text());
        assert_eq!(ran_on(&fixture, &daemon, "after"), "good", "{language:?}");

        // By an operator, from a program that fails nothing.
        swap(&fixture, &daemon, language, &language.acks("better"));
        assert_eq!(ran_on(&fixture, &daemon, "better"), "better", "{language:?}");
        let output = duebox(&fixture, &["rollback", TOPIC]);
        assert!(output.status.success(), "{language:?}: {output:?}");
        assert_eq!(ran_on(&fixture, &daemon, "back"), "good", "{language:?}");
    }
}

#[test]
fn a_pin_covers_the_handler_and_what_it_imports() {
    for language in LANGUAGES {
        let fixture = language.fixture();
        let library = |text: &str| match language {
            Language::TypeScript => format!("export const text: string = '{text}';\n"),
            Language::Python => format!("text = '{text}'\n"),
        };
        fixture.write(&language.file("library"), library("pinned"));
        let source = match language {
            Language::TypeScript => {
                "import { text } from './library';\nexport default () => { console.log(text) };\n"
            }
            Language::Python => "from library import text\ndef handle(order): print(text)\n",
        };
        fixture.write(&language.handler(), source);
        fixture.manifest("", &[language.topic("")]);
        let checked = duebox(&fixture, &["check", "--json"]);
        let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
        let digest = checked["topics"][0]["digest"].as_str().unwrap().to_owned();
        assert_eq!(digest.len(), 64, "{checked}");

        fixture.manifest("", &[language.topic(&format!("sha256 = \"{digest}\""))]);
        let daemon = fixture.start();
        assert_eq!(ran_on(&fixture, &daemon, "first"), "pinned", "{language:?}");
        fixture.write(&language.file("library"), library("another"));
        let refused = daemon.wait_for_line("the refusal", |line| {
            line.has("level", "WARN") && line.message().contains("is not the pinned one")
        });
        assert!(refused.message().contains(&digest), "{}", refused.text());
        assert_eq!(ran_on(&fixture, &daemon, "second"), "pinned", "{language:?}");
        // Nor does a daemon start with it.
        let output = duebox(&fixture, &["check"]);
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("is not the pinned one"), "{text}");
    }
}

#[test]
fn the_breaker_holds_the_jobs_of_a_failing_program_back() {
    for language in LANGUAGES {
        let fixture = language.fixture();
        fixture.write(&language.handler(), language.nacks("failing"));
        let keys = "concurrency = 2\nbackoff = \"1h\"\nbreaker = { failures = 5, probe = \"1h\", on = [\"nack\"] }";
        fixture.manifest("", &[language.topic(keys)]);
        let daemon = fixture.start();
        let store = fixture.store();
        push_many(&fixture, TOPIC, 60);
        daemon.wait_for_line("it opens", |line| {
            line.has("level", "WARN") && line.message().starts_with("the breaker is open")
        });
        eventually("the others are released", || store.stage(TOPIC, "unack").is_empty());
        let paid = store.attempts(TOPIC);
        // Two run at once, so one more may have started.
        assert!((5..=6).contains(&paid.len()), "{language:?}: {paid:?}");
        fixture.write(&language.handler(), language.acks("well"));
        daemon
            .wait_for_line("it closes", |line| line.message().starts_with("the breaker is closed"));
        eventually("the others run", || store.live_count(TOPIC) == paid.len());
        assert_eq!(store.attempts(TOPIC), paid, "{language:?}: the others paid for it");
    }
}

/// A warm instance runs many jobs, so a program sees what the ones before left; by default it sees nothing.
#[test]
fn warm_instances_keep_what_jobs_leave() {
    const JOBS: usize = 40;
    for language in LANGUAGES {
        let fixture = language.fixture();
        let source = match language {
            Language::TypeScript => {
                "let seen = 0;\nexport default (): void => { seen++; console.log(`seen ${seen}`) };\n"
            }
            Language::Python => {
                "seen = 0\ndef handle(order):\n    global seen\n    seen += 1\n    print('seen', seen)\n"
            }
        };
        fixture.write(&language.handler(), source);
        for (isolation, is_kept) in [("isolation = \"warm\"", true), ("", false)] {
            let keys = format!("concurrency = 1\n{isolation}");
            fixture.manifest("", &[language.topic(&keys)]);
            let daemon = fixture.start();
            run_jobs(&fixture, &daemon, JOBS);
            eventually("all lines", || daemon.count(is_handler_line) == JOBS);
            let lines = handler_lines(&daemon);
            let most = lines.iter().filter_map(|line| line.text.strip_prefix("seen "));
            let most = most.map(|count| count.parse::<usize>().unwrap()).max();
            let is_expected = if is_kept { most > Some(1) } else { most == Some(1) };
            assert!(is_expected, "{language:?} {isolation:?}: {most:?}");
        }
    }
}

/// A job of the old program waits for a job of the new one, so both run at the same time.
#[test]
fn a_running_job_ends_on_the_program_that_it_began_with() {
    for language in LANGUAGES {
        let fixture = language.fixture();
        let (waits, ends) = match language {
            Language::TypeScript => (
                "import { kv } from 'duebox';
                export default async () => {
                  console.log('waits');
                  while (kv.get('go') === undefined) await new Promise((next) => setTimeout(next, 10));
                };\n",
                "import { kv } from 'duebox';
                export default () => { kv.set('go', 'on'); console.log('ends') };\n",
            ),
            Language::Python => (
                "import time\nfrom duebox import kv
def handle(order):
    print('waits')
    while kv.get('go') is None:
        time.sleep(0.01)
",
                "from duebox import kv\ndef handle(order):\n    kv.set('go', 'on')\n    print('ends')\n",
            ),
        };
        fixture.write(&language.handler(), waits);
        let keys = format!("ttr = \"60s\"\n[topics.{TOPIC}.sandbox]\nkv = true");
        fixture.manifest("", &[language.topic(&keys)]);
        let daemon = fixture.start();
        push(&fixture, TOPIC, "old", 0);
        daemon.wait_for_line("the old program runs", is_handler_line);
        swap(&fixture, &daemon, language, ends);
        assert_eq!(daemon.count(is_verdict), 0, "{language:?}: it ended early");
        push_ids(&fixture, TOPIC, &["new".to_owned()]);
        for id in ["new", "old"] {
            daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id));
        }
        let digests: BTreeSet<String> = verdicts(&daemon).into_iter().map(|it| it.digest).collect();
        assert_eq!(digests.len(), 2, "{language:?}: both ran on one program");
        assert_eq!(
            (said(&daemon, "old").as_str(), said(&daemon, "new").as_str()),
            ("waits", "ends")
        );
    }
}
