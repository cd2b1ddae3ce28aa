//! Due times are judged by the clock of Redis: the one of this machine may be an hour off.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duebox_harness::{Daemon, duebox_binary};

use crate::support::client::{Response, address, ask, post};
use crate::support::fixture::Fixture;

/// A library that sets the clock of a process an hour ahead.
const AHEAD: &str = r#"
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && id == CLOCK_REALTIME) at->tv_sec += 3600;
    return failed;
}
"#;

fn library(fixture: &Fixture) -> PathBuf {
    let (source, library) = (fixture.write("ahead.c", AHEAD), fixture.path("ahead.so"));
    let mut compiler = Command::new("cc");
    let compiled = compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(compiled.unwrap().success());
    library
}

/// Unix ms, so many seconds from now.
fn from_now(seconds: u64) -> u64 {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(seconds);
    u64::try_from(at.as_millis()).unwrap()
}

#[test]
fn a_time_is_judged_by_the_clock_of_redis() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\n".to_owned()]);
    let ahead = library(&fixture);
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("LD_PRELOAD", &ahead);
    });
    let at = address(&daemon);
    let jobs = "/v1/topics/mail/jobs";
    let soon = from_now(600);
    let stored = |answer: Response| assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    stored(post(at, jobs, &format!("{{\"id\":\"a\",\"at\":{soon}}}")));
    stored(post(at, jobs, &format!("[{{\"id\":\"b\",\"at\":{soon}}}]")));
    let time = soon.to_string();
    let bytes = [("content-type", "application/octet-stream"), ("duebox-at", time.as_str())];
    stored(ask(at, "POST /v1/topics/mail/jobs", &bytes, b"x"));
    let kind = [("content-type", "application/x-ndjson")];
    let line = format!("{{\"id\":\"c\",\"at\":{soon}}}\n{{\"id\":\"d\",\"at\":1}}\n");
    let lines = ask(at, "POST /v1/topics/mail/jobs", &kind, line.as_bytes());
    assert!(lines.text().contains("\"pushed\"") && lines.text().contains("\"bad\""), "{lines:?}");
    stored(post(at, &format!("{jobs}/a/reschedule"), &format!("{{\"at\":\"{soon}\"}}")));
    // A time in the past is refused, and the field is named.
    let past = from_now(0) - 1_000;
    let refused = post(at, jobs, &format!("[{{}},{{\"at\":{past}}}]"));
    assert_eq!((refused.problem().as_str(), refused.status), ("bad-request", 400));
    let problem = refused.json();
    assert_eq!(problem["field"], "[1].at", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("by the clock of Redis"), "{problem}");
    // The command line does the same.
    let run = |words: &[&str]| {
        let mut command = Command::new(duebox_binary());
        command.args(words).args(["--manifest"]).arg(fixture.path("duebox.toml"));
        command.env("LD_PRELOAD", &ahead).env_remove("DUEBOX_REDIS_URL").output().unwrap()
    };
    for words in [
        ["push", "mail", "--id", "e", "--at", &time],
        ["reschedule", "mail", "a", "--at", &time, "--json"],
    ] {
        let output = run(&words);
        assert!(output.status.success(), "{output:?}");
    }
    let refused = run(&["push", "mail", "--at", &past.to_string()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
