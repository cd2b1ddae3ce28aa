//! The conformance cases: the files in `cases/`. A malformed file is an error. README.md describes
//! the steps of a script.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use duebox_job::FollowUp;
use serde::Deserialize;

use crate::attempt::{Attempt, Module, Run};
use crate::services::Services;

/// A script for a handler and the expected outcome.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The handler's name without its language, from the file.
    #[serde(skip)]
    pub handler: String,
    /// What the case shows, as a sentence.
    pub name: String,
    /// The steps, separated by `; `.
    script: String,
    #[serde(default)]
    payload: Payload,
    id: Option<String>,
    topic: Option<String>,
    attempt: Option<u32>,
    max_attempts: Option<u32>,
    due_at_ms: Option<u64>,
    ttr_ms: Option<u64>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    expect: Expectation,
    /// What is expected in a language instead, where the language itself differs.
    #[serde(default)]
    expect_in: BTreeMap<String, Expectation>,
}

/// The bytes of a payload in one of several notations.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Payload {
    Text(String),
    Bytes { bytes: Vec<u8> },
    Pattern { pattern: Vec<u8>, length: usize },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    /// `ack`, or the class of the failure.
    verdict: String,
    /// The whole reason; not checked if absent.
    reason: Option<String>,
    /// A part of the reason.
    reason_has: Option<String>,
    /// The delay of a nack; must be absent if absent here.
    retry_after_ms: Option<u128>,
    /// The delay of a snooze; must be absent if absent here.
    snooze_ms: Option<u128>,
    /// The kept result; must be absent if absent here.
    result: Option<String>,
    /// The follow-up jobs in the queue's notation; must be absent if absent here.
    #[serde(default)]
    follow_ups: Vec<serde_json::Value>,
    /// The number of follow-up jobs, if they are not listed.
    pushed: Option<usize>,
    /// All log lines, each preceded by its level.
    #[serde(default)]
    lines: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The handler of these cases, without its language.
    #[serde(default = "echo")]
    handler: String,
    case: Vec<Case>,
}

fn echo() -> String {
    "echo".to_owned()
}

impl File {
    fn cases(self) -> impl Iterator<Item = Case> {
        let handler = self.handler;
        let named = move |case| Case { handler: handler.clone(), ..case };
        self.case.into_iter().map(named)
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Payload {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes { bytes } => bytes.clone(),
            Self::Pattern { pattern, length } => {
                pattern.iter().copied().cycle().take(*length).collect()
            }
        }
    }
}

impl Case {
    /// The case as it is expected of a handler in this language.
    #[must_use]
    pub fn for_language(mut self, language: &str) -> Self {
        if let Some(expect) = self.expect_in.remove(language) {
            self.expect = expect;
        }
        self
    }

    /// Replaces the placeholders in the case's texts.
    #[must_use]
    pub fn at(mut self, services: &Services) -> Self {
        self.script = services.substitute(&self.script);
        let Expectation { reason, reason_has, lines, .. } = &mut self.expect;
        for text in reason.iter_mut().chain(reason_has).chain(lines) {
            *text = services.substitute(text);
        }
        self
    }

    /// Runs the case with a module and returns the differences to the expectation.
    pub fn differences(&self, module: &Module) -> Vec<String> {
        let run = module.run(&self.attempt());
        let mut faults = Vec::new();
        let mut expect = |what: &str, fine: bool, seen: &dyn std::fmt::Debug, wanted: &str| {
            if !fine {
                faults.push(format!("{}: {what} is {seen:?}, expected {wanted}", self.name));
            }
        };
        let Expectation { verdict, reason, reason_has, retry_after_ms, snooze_ms, .. } =
            &self.expect;
        expect("the verdict", run.verdict() == verdict, &run.outcome, verdict);
        if let Some(reason) = reason {
            expect("the reason", run.reason() == reason, &run.reason(), reason);
        }
        if let Some(part) = reason_has {
            expect("the reason", run.reason().contains(part), &run.reason(), part);
        }
        let wait = run.retry_after_ms();
        expect("the wait", wait == *retry_after_ms, &wait, &format!("{retry_after_ms:?}"));
        let snooze = run.snooze_ms();
        expect("the snooze", snooze == *snooze_ms, &snooze, &format!("{snooze_ms:?}"));
        let Expectation { result, pushed, lines, .. } = &self.expect;
        let kept = run.result.as_deref();
        expect(
            "the result",
            kept == result.as_ref().map(String::as_bytes),
            &kept,
            &format!("{result:?}"),
        );
        let (seen, wanted) = (&run.follow_ups, self.expect.follow_ups());
        let fine = pushed.map_or(*seen == wanted, |count| seen.len() == count);
        expect("the pushed jobs", fine, seen, &format!("{wanted:?}, or {pushed:?} of them"));
        expect("the log", own_lines(&run) == *lines, &run.lines, &format!("{lines:?}"));
        faults
    }

    fn attempt(&self) -> Attempt {
        let mut attempt = Attempt::new(self.payload.bytes());
        attempt.headers = self.headers.clone();
        attempt.headers.insert("script".to_owned(), self.script.clone());
        attempt.attempt = self.attempt.unwrap_or(attempt.attempt);
        attempt.max_attempts = self.max_attempts.unwrap_or(attempt.max_attempts);
        attempt.ttr = self.ttr_ms.map_or(attempt.ttr, Duration::from_millis);
        attempt.due_at_ms = self.due_at_ms.unwrap_or(attempt.due_at_ms);
        attempt.id = self.id.clone().unwrap_or(attempt.id);
        attempt.topic = self.topic.clone().unwrap_or(attempt.topic);
        attempt
    }
}

impl Expectation {
    fn follow_ups(&self) -> Vec<FollowUp> {
        let json = serde_json::Value::from(self.follow_ups.clone()).to_string();
        FollowUp::from_json(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"))
    }
}

/// The lines that the handler wrote. On a panic Go's runtime adds its traceback on stderr.
fn own_lines(run: &Run) -> Vec<String> {
    let all = run.lines.iter().cloned();
    all.take_while(|line| !line.starts_with("warn panic: ")).collect()
}

/// All cases, in the order of their files' names.
///
/// # Panics
/// If a file is malformed, or the folder is empty.
pub fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let read = std::fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<_> = read
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    let cases: Vec<Case> = paths.iter().flat_map(|path| parsed::<File>(path).cases()).collect();
    assert!(!cases.is_empty(), "{} contains no case", folder.display());
    cases
}

/// The configuration of every case: strings as they are, other values as JSON text, as the daemon
/// passes them to a handler.
///
/// # Panics
/// If `config.toml` is not a TOML table.
pub fn config() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.toml");
    let values: BTreeMap<String, serde_json::Value> = parsed(&path);
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    values.into_iter().map(|(name, value)| (name, text(value))).collect()
}

fn parsed<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
