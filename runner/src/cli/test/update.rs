//! `duebox test --update`: what came of failed cases becomes what they expect. Everything else in their
//! files stays as it is, comments included.

use std::path::Path;
use std::time::Duration;

use duebox_job::format_duration;
use toml_edit::{Array, DocumentMut, InlineTable, Table, Value, value};

use super::report::{CaseResult, TestReport};
use super::suites::Suite;
use crate::cli::support::failure::Failure;
use crate::deploy::case_run::CaseRun;
use crate::manifest::{CaseFile, ExpectedFollowUp};

/// The keys of a case that say what must come of it.
const EXPECTATIONS: [&str; 7] =
    ["expect", "reason", "delay", "result", "follow_ups", "log", "kv_after"];

/// Rewrites the files of failed cases. A case without recorded responses to its requests, or that ended
/// with a fault of the host, is left alone.
///
/// # Errors
/// A [`Failure`] if a file cannot be written.
pub(super) fn rewrite(suites: &[Suite<'_>], report: &mut TestReport) -> Result<(), Failure> {
    for file in suites.iter().flat_map(|suite| &suite.files) {
        let of_file = |case: &&mut CaseResult| {
            case.file.as_deref() == Some(file.path.as_path()) && can_update(case)
        };
        let mut cases: Vec<&mut CaseResult> = report.cases.iter_mut().filter(of_file).collect();
        if cases.is_empty() {
            continue;
        }
        let text = updated(file, &cases)?;
        std::fs::write(&file.path, text).map_err(|error| unwritable(&file.path, &error))?;
        cases.iter_mut().for_each(|case| case.updated = true);
    }
    Ok(())
}

fn can_update(case: &CaseResult) -> bool {
    let has_requests = case.differences.iter().any(|difference| difference.what == "http");
    !case.passed && !has_requests && case.run.verdict().is_some()
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::failed(message, "make it writable by this user")
}

/// The text of a file with the expectations of these cases.
fn updated(file: &CaseFile, cases: &[&mut CaseResult]) -> Result<String, Failure> {
    let document: Result<DocumentMut, _> = file.text.parse();
    let mut document = document.map_err(|error| {
        let message = format!("{} cannot be updated: {error}", file.path.display());
        Failure::failed(message, "write each case as a table [[case]]")
    })?;
    let tables = document.get_mut("case").and_then(|item| item.as_array_of_tables_mut());
    let Some(tables) = tables else {
        let message = format!("{} cannot be updated", file.path.display());
        return Err(Failure::failed(message, "write each case as a table [[case]]"));
    };
    for case in cases {
        if let Some(table) = tables.get_mut(case.at) {
            expect(table, &case.run);
        }
    }
    Ok(document.to_string())
}

/// Sets the expectations that a case has, and `expect`; all of them if it has none.
fn expect(table: &mut Table, run: &CaseRun) {
    let is_new = EXPECTATIONS.iter().all(|key| !table.contains_key(key));
    let verdict = run.verdict().map_or("ack", |verdict| verdict.word());
    set(table, "expect", Some(text(verdict)));
    let result = run.report.result.as_deref().map(String::from_utf8_lossy);
    let values = [
        ("reason", Some(run.reason()).filter(|it| !it.is_empty()).map(text)),
        ("delay", run.delay().map(delay)),
        ("result", result.filter(|it| !it.is_empty()).map(|result| text(&result))),
        // A case that expects none of them says so; a new case does not.
        (
            "follow_ups",
            Some(follow_ups(run)).filter(|it| !is_new || !it.is_empty()).map(Value::from),
        ),
        ("log", Some(strings(&run.log)).filter(|it| !is_new || !it.is_empty()).map(Value::from)),
        ("kv_after", Some(kv(run)).filter(|it| !is_new || !it.is_empty()).map(Value::from)),
    ];
    for (key, found) in values {
        if is_new || table.contains_key(key) {
            set(table, key, found);
        }
    }
}

/// Sets a key, or removes it. A new key stands after the others and before the tables of the case.
fn set(table: &mut Table, key: &str, found: Option<Value>) {
    match (table.get_mut(key).and_then(|item| item.as_value_mut()), found) {
        (Some(old), Some(mut found)) => {
            *found.decor_mut() = old.decor().clone();
            *old = found;
        }
        (_, Some(found)) => {
            table.insert(key, value(found));
        }
        (_, None) => {
            table.remove(key);
        }
    }
}

/// A string of the file. A dollar sign is doubled, because the files have variables like a manifest.
fn text(text: &str) -> Value {
    Value::from(text.replace('$', "$$"))
}

fn delay(delay: Duration) -> Value {
    Value::from(format_duration(delay))
}

fn strings(lines: &[String]) -> Array {
    lines.iter().map(|line| text(line)).collect()
}

fn kv(run: &CaseRun) -> InlineTable {
    let value = |bytes: &[u8]| text(&String::from_utf8_lossy(bytes));
    run.kv.iter().map(|(key, bytes)| (key.clone(), value(bytes))).collect()
}

fn follow_ups(run: &CaseRun) -> Array {
    let table = |follow_up: ExpectedFollowUp| {
        let mut table = InlineTable::new();
        table.insert("topic", text(&follow_up.topic));
        if let Some(id) = &follow_up.id {
            table.insert("id", text(id));
        }
        if let Some(payload) = follow_up.payload.as_deref().filter(|it| !it.is_empty()) {
            table.insert("payload", text(&String::from_utf8_lossy(payload)));
        }
        if let Some(after) = follow_up.delay {
            table.insert("delay", delay(after));
        }
        Value::from(table)
    };
    run.follow_ups().into_iter().map(table).collect()
}
