//! What passes between a source handler and the services of the host: HTTP, the store, settings, headers and follow-up
//! jobs. Values arrive as they were given, or the call is refused; no value becomes a second header or option.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use duebox_conformance::{Attempt, Module, Run, Services, repository, services};
use duebox_job::{FollowUpDue, JobId, Options, Priority};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use crate::bridges::{holds, holds_in};

const LANGUAGES: [&str; 2] = ["js", "py"];
/// How a value with control characters might add a header or an option.
const INJECTIONS: [&str; 6] =
    ["\r\nx-evil: 1", "\nx-evil: 1", "a: b", "\0", "\n\nbody", "x\u{2028}x-evil: 1"];

fn module(language: &str, config: BTreeMap<String, String>, services: &Arc<Services>) -> Module {
    let path = repository().join(format!("tests/conformance/bridges/services.{language}"));
    Module::from_file_with_services(&path, config, services)
}

/// Runs a task. Its result is JSON, or nothing.
fn run(module: &Module, task: &str, mut values: Value) -> (Run, Value) {
    values["task"] = json!(task);
    let run = module.run(&Attempt::new(values.to_string()));
    let result = run.result.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    (run, result.unwrap_or_default())
}

/// An error of the program or of the host, and no other end.
fn is_error(run: &Run) -> bool {
    run.verdict() == "nack" && run.follow_ups.is_empty()
}

/// The fields of a response.
fn fields(result: &Value) -> BTreeMap<&str, &str> {
    let pairs = result["headers"].as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?))).collect()
}

/// Text that may be a header's value.
fn plain() -> impl Strategy<Value = String> + Clone {
    "[ -~]{0,40}"
}

/// Any text, often one that could end a line.
fn hostile() -> impl Strategy<Value = String> + Clone {
    let injection = prop::sample::select(&INJECTIONS[..]);
    prop_oneof![
        2 => any::<String>(),
        1 => ("[a-z]{0,4}", injection, "[a-z]{0,4}").prop_map(|(a, b, c)| format!("{a}{b}{c}")),
        1 => plain(),
    ]
}

/// All bytes of a text as `%XX`.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        write!(escaped, "%{byte:02X}").unwrap();
        escaped
    })
}

#[test]
fn requests_arrive_as_they_were_given() {
    let methods = prop::sample::select(&["POST", "PUT", "PATCH", "DELETE"][..]);
    let headers = prop::collection::btree_map("x-[a-z0-9-]{1,20}", plain(), 0..6);
    let cases = (methods, headers, prop::collection::vec(any::<u8>(), 0..3_000));
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        let url = services.substitute("{server}/echo");
        holds(cases.clone(), |(method, headers, body)| {
            let request = json!({ "url": url, "method": method, "headers": headers, "body": body });
            let (run, result) = run(&module, "exchange", request);
            prop_assert_eq!(run.verdict(), "ack", "{}: {:?}", language, run);
            prop_assert_eq!(&result["status"], &json!(200));
            prop_assert_eq!(&result["content"], &json!(body));
            let fields = fields(&result);
            prop_assert_eq!(fields.get("echo-method").copied(), Some(method));
            for (name, value) in &headers {
                let found = fields.get(format!("echo-{name}").as_str()).copied();
                prop_assert_eq!(found, Some(value.trim()), "{}: {}", language, name);
            }
            Ok(())
        });
    }
}

#[test]
fn no_header_brings_another_along() {
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        let url = services.substitute("{server}/echo");
        let names = prop_oneof!["x-[a-z]{1,5}", hostile()];
        holds((names, hostile()), |(name, value)| {
            let headers = json!({ name.clone(): value });
            let request = json!({ "url": url, "method": "POST", "headers": headers, "body": [] });
            let (run, result) = run(&module, "exchange", request);
            if is_error(&run) {
                return Ok(());
            }
            prop_assert_eq!(run.verdict(), "ack", "{} {:?}: {:?}", language, name, run);
            let fields = fields(&result);
            prop_assert!(!fields.contains_key("echo-x-evil"), "{}: {:?}", language, value);
            let evil = fields.values().any(|value| value.contains(['\r', '\n', '\0']));
            prop_assert!(!evil, "{}: {:?}", language, fields);
            Ok(())
        });
    }
}

/// A response with its verdict, as the documents have it.
fn verdict_of(status: u16) -> &'static str {
    match status {
        200..=299 => "ack",
        408 | 429 | 500.. => "nack",
        400..=499 => "drop",
        _ => "nack",
    }
}

#[test]
fn responses_are_read_as_the_server_wrote_them() {
    let waits = prop_oneof![(0..10_u64.pow(9)).prop_map(|wait| wait.to_string()), plain()];
    let cases = (200..600_u16, waits, plain());
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        let server = services.substitute("{server}");
        holds(cases.clone(), |(status, wait, text)| {
            let query = format!("retry-after={}&x-text={}", escaped(&wait), escaped(&text));
            let url = format!("{server}/answer/{status}?{query}");
            let request = json!({ "url": url, "method": "POST", "headers": {}, "body": null });
            let (run, result) = run(&module, "exchange", request);
            prop_assert_eq!(run.verdict(), "ack", "{} {}: {:?}", language, url, run);
            prop_assert_eq!(&result["status"], &json!(status));
            prop_assert_eq!(result["verdict"].as_str(), Some(verdict_of(status)));
            prop_assert_eq!(fields(&result).get("x-text").copied(), Some(text.trim()));
            let seconds = wait.parse::<u64>().ok().filter(|_| !wait.starts_with('+'));
            if let Some(seconds) = seconds {
                let factor = if language == "js" { 1_000 } else { 1 };
                prop_assert_eq!(&result["retryAfter"], &json!(seconds * factor), "{}", language);
            }
            Ok(())
        });
    }
}

#[test]
fn redirects_lead_to_granted_servers_or_end() {
    let paths =
        "(/answer/(200|204|404|429|503)|/echo|[a-z/.?#%@:\\\\ ]{0,20}|https?://[a-z.:/@]{0,20})";
    let locations = prop_oneof![2 => paths, 1 => plain(), 1 => Just("{other}/echo".to_owned())];
    let statuses = prop::sample::select(&[301_u16, 302, 303, 307, 308][..]);
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        let server = services.substitute("{server}");
        holds((statuses.clone(), locations.clone()), |(status, location)| {
            let location = services.substitute(&location);
            let url = format!("{server}/answer/{status}?location={}", escaped(&location));
            let request = json!({ "url": url, "method": "POST", "headers": {}, "body": [1] });
            let (run, result) = run(&module, "exchange", request);
            if is_error(&run) {
                return Ok(());
            }
            prop_assert_eq!(run.verdict(), "ack", "{} {:?}: {:?}", language, location, run);
            let end = result["status"].as_u64().unwrap_or_default();
            let asked = location.strip_prefix("/answer/").and_then(|end| end.parse::<u64>().ok());
            prop_assert_eq!(end, asked.unwrap_or(end), "{} {:?}", language, location);
            Ok(())
        });
    }
}

#[test]
fn the_store_keeps_what_it_was_given() {
    let keys = prop_oneof![3 => any::<String>(), 1 => "[a-z]{0,300}"];
    let cases = (keys, prop::collection::vec(any::<u8>(), 0..3_000));
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        holds(cases.clone(), |(key, value)| {
            let (run, result) = run(&module, "store", json!({ "key": key, "value": value }));
            if !(1..=256).contains(&key.len()) {
                prop_assert!(is_error(&run), "{} {:?}: {:?}", language, key, run);
                prop_assert!(run.reason().contains("1 to 256 bytes"), "{}", run.reason());
                return Ok(());
            }
            prop_assert_eq!(run.verdict(), "ack", "{} {:?}: {:?}", language, key, run);
            let text = String::from_utf8_lossy(&value);
            let wanted = json!({ "written": true, "value": value, "text": text, "gone": true });
            prop_assert_eq!(result, wanted);
            Ok(())
        });
    }
}

#[test]
fn settings_are_those_of_the_topic() {
    let cases = prop::collection::btree_map(any::<String>(), any::<String>(), 1..40);
    for language in LANGUAGES {
        let services = services();
        // Each case loads a program.
        holds_in(60, cases.clone(), |config| {
            let module = module(language, config.clone(), &services);
            let names: BTreeSet<&String> = config.keys().collect();
            let (run, result) = run(&module, "settings", json!({ "names": names }));
            prop_assert_eq!(run.verdict(), "ack", "{}: {:?}", language, run);
            prop_assert_eq!(result, json!(config.values().collect::<Vec<_>>()));
            let (run, _) = self::run(&module, "settings", json!({ "names": ["not there"] }));
            prop_assert!(config.contains_key("not there") || is_error(&run), "{:?}", run);
            Ok(())
        });
    }
}

#[test]
fn headers_are_those_of_the_job() {
    let names = prop_oneof!["[a-z0-9_.-]{1,20}", Just("__proto__".to_owned())];
    let values = prop_oneof![plain(), "[a-zäöü€😀: ]{0,20}"];
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        let cases = prop::collection::btree_map(names.clone(), values.clone(), 0..10);
        holds(cases, |headers| {
            let mut attempt = Attempt::new(r#"{"task":"headers"}"#);
            attempt.headers = headers.clone();
            let run = module.run(&attempt);
            prop_assert_eq!(run.verdict(), "ack", "{}: {:?}", language, run);
            let found: BTreeMap<String, String> = serde_json::from_slice(&run.result.unwrap())
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(found, headers);
            Ok(())
        });
    }
}

/// The options of a follow-up as a producer in Rust would set them; `None` if one is invalid.
fn wanted(key: &str, header: &(String, String), delay: u64) -> Option<Options> {
    let options = Options::default().with_priority(Priority::High).with_max_attempts(3);
    let options = options.with_ttl(std::time::Duration::from_millis(delay));
    options.with_key(key).ok()?.with_header(&header.0, &header.1).ok()
}

#[test]
fn follow_ups_have_the_options_that_were_given_or_are_refused() {
    let ids = prop_oneof![2 => "[a-zA-Z0-9.:_-]{1,40}", 1 => hostile()];
    let keys = prop_oneof![2 => "[ -~]{1,20}", 1 => hostile()];
    let names = prop_oneof![2 => "[a-z][a-z0-9-]{0,20}", 1 => hostile()];
    let headers = (names, prop_oneof![2 => plain(), 1 => hostile()]);
    let cases = (ids, keys, headers, 1_000..1_000_000_u64, any::<String>());
    for language in LANGUAGES {
        let services = services();
        let module = module(language, [].into(), &services);
        holds(cases.clone(), |(id, key, header, ms, payload)| {
            let named = json!({ header.0.clone(): header.1 });
            let options = json!({ "id": id, "key": key, "headers": named, "delay": ms, "ttl": ms,
                "priority": "high", "maxAttempts": 3 });
            let given = json!({ "topic": "sms.out", "payload": payload, "options": options });
            let (run, _) = run(&module, "push", given);
            if is_error(&run) {
                // What is plain is not refused.
                let is_plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric());
                let all = [&id, &key, &header.0, &header.1].map(String::as_str);
                let is_valid = wanted(&key, &header, ms).is_some() && JobId::new(&*id).is_ok();
                let is_refused_for_nothing = all.into_iter().all(is_plain) && is_valid;
                prop_assert!(!is_refused_for_nothing, "{} {:?}: {:?}", language, all, run);
                return Ok(());
            }
            prop_assert_eq!(run.verdict(), "ack", "{}: {:?}", language, run);
            prop_assert_eq!(run.follow_ups.len(), 1);
            let job = &run.follow_ups[0];
            prop_assert_eq!(job.id.as_bytes(), id.as_bytes());
            prop_assert_eq!(job.topic.as_str(), "sms.out");
            prop_assert_eq!(job.due, FollowUpDue::AfterMs(ms));
            prop_assert_eq!(job.payload.as_ref(), payload.as_bytes());
            let wanted = wanted(&key, &header, ms);
            prop_assert_eq!(Some(&job.options), wanted.as_ref());
            Ok(())
        });
    }
}
