//! The log on stderr. A process has one log, so each case runs in its own process: this test binary
//! again, with only that case.

#![expect(clippy::unwrap_used, reason = "a test that cannot start a process has failed")]

use std::process::Command;

use duebox::manifest::LogFormat;
use duebox::observe::log::{self, Telemetry};
use serde_json::Value;

/// Set in the process that writes the log of a case.
const CASE: &str = "DUEBOX_TEST_LOG_CASE";

/// Runs the test `name` in a process that writes a log, and returns the lines on its stderr.
fn log_of(name: &str) -> Vec<String> {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CASE, name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect()
}

fn is_the_case() -> bool {
    std::env::var_os(CASE).is_some()
}

#[test]
fn lines_are_json_without_a_terminal_and_fields_are_at_the_top() {
    if is_the_case() {
        let log = Telemetry::start("info", LogFormat::Auto).unwrap();
        tracing::info!(topic = "a", attempt = 2, "job done");
        tracing::debug!("not asked for");
        assert_eq!(log.dropped_lines(), 0);
        assert!(Telemetry::start("info", LogFormat::Auto).is_err(), "there is one log already");
        return;
    }
    let lines = log_of("lines_are_json_without_a_terminal_and_fields_are_at_the_top");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((&line["message"], &line["level"]), (&"job done".into(), &"INFO".into()));
    assert_eq!((&line["topic"], &line["attempt"]), (&"a".into(), &2.into()));
}

#[test]
fn filter_and_format_change_at_run_time() {
    if is_the_case() {
        assert!(log::change("info", LogFormat::Json).is_err(), "there is no log yet");
        let _log = Telemetry::start("warn", LogFormat::Json).unwrap();
        let span = tracing::error_span!("open", id = 1).entered();
        tracing::info!("before");
        assert!(log::change("info,other=loud", LogFormat::Human).is_err());
        tracing::info!("refused whole");
        log::change("info", LogFormat::Human).unwrap();
        tracing::info!("for people");
        log::change("debug", LogFormat::Json).unwrap();
        drop(span);
        tracing::debug!("for machines");
        return;
    }
    let lines = log_of("filter_and_format_change_at_run_time");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(" INFO ") && lines[0].contains("for people"), "{lines:?}");
    assert!(!lines[0].contains('\x1b'), "no colours without a terminal: {lines:?}");
    let line: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!((&line["message"], &line["level"]), (&"for machines".into(), &"DEBUG".into()));
}
