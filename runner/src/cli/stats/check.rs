//! `duebox stats --check`: says what is wrong, for scripts and probes.
//!
//! Always wrong are keys that cannot be read, open breakers, refused manifests, and fewer daemons than asked
//! for; and schedules of paused topics. Counts and lateness are wrong above the limits that are given.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_job::{format_duration, parse_duration};
use serde::Serialize;

use super::{Snapshot, TopicStats};
use crate::cli::support::failure::{FAILED, Failure};
use crate::cli::support::output;
use crate::manifest::Manifest;
use crate::schedule::Schedule;

/// Limits of a check.
#[derive(Args)]
pub(in crate::cli) struct CheckLimits {
    /// Exit with 1 if something is wrong, and say what
    #[arg(long, conflicts_with = "watch")]
    pub(super) check: bool,
    /// Wrong if the oldest ready job of a topic has been due for longer; paused topics are not late
    #[arg(long, value_name = "DURATION", requires = "check", value_parser = parse_duration)]
    max_late: Option<Duration>,
    /// Wrong if a topic has more dead jobs
    #[arg(long, value_name = "N", requires = "check")]
    max_dead: Option<u64>,
    /// Wrong if more jobs of a topic wait for their next attempt
    #[arg(long, value_name = "N", requires = "check")]
    max_retry: Option<u64>,
    /// Wrong if more due jobs of a topic wait: ready and blocked together
    #[arg(long, value_name = "N", requires = "check")]
    max_ready: Option<u64>,
    /// Wrong if fewer daemons run
    #[arg(long, value_name = "N", requires = "check", default_value_t = 1)]
    min_daemons: usize,
}

/// The result; the JSON output.
#[derive(Serialize)]
struct CheckResult {
    ok: bool,
    problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    problem: String,
}

/// Prints what is wrong.
pub(super) fn report(
    snapshot: &Snapshot,
    manifest: &Manifest,
    limits: &CheckLimits,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut problems = limits.problems(snapshot);
    problems.extend(idle_schedules(snapshot, manifest));
    let ok = problems.is_empty();
    if json {
        output::print_json(&CheckResult { ok, problems })?;
    } else if ok {
        let (topics, daemons) = (snapshot.topics.len(), snapshot.runners.len());
        output::print(&format!("ok: {topics} topics, {daemons} daemons"))?;
    } else {
        let line = |Problem { topic, problem }: &Problem| match topic {
            Some(topic) => output::one_line(&format!("{topic}: {problem}")),
            None => output::one_line(problem),
        };
        output::print(&problems.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(ExitCode::from(if ok { 0 } else { FAILED }))
}

/// Schedules whose jobs wait for the end of a pause.
fn idle_schedules(snapshot: &Snapshot, manifest: &Manifest) -> Vec<Problem> {
    let is_paused =
        |name: &str| snapshot.topics.iter().any(|topic| topic.paused && topic.topic == name);
    let idle = manifest.schedules.iter().filter(|schedule| is_paused(schedule.topic.as_str()));
    let problem = |schedule: &Schedule| Problem {
        topic: Some(schedule.topic.to_string()),
        problem: format!("it is paused, and the schedule {} pushes to it", schedule.name),
    };
    idle.map(problem).collect()
}

impl CheckLimits {
    fn problems(&self, snapshot: &Snapshot) -> Vec<Problem> {
        let running = snapshot.runners.len();
        let mut all: Vec<String> = Vec::new();
        if running < self.min_daemons {
            all.push(format!("{running} daemons run, fewer than {}", self.min_daemons));
        }
        all.extend(snapshot.unreadable.iter().map(|key| format!("the key {key} cannot be read")));
        for runner in &snapshot.runners {
            let refused = runner.manifest_refused.iter();
            all.extend(refused.map(|refusal| {
                format!("daemon {} refuses its manifest: {}", runner.runner, refusal.problem)
            }));
        }
        let of_process = all.into_iter().map(|problem| Problem { topic: None, problem });
        let of_topics = snapshot.topics.iter().flat_map(|topic| {
            let problems = self.problems_of(topic).into_iter();
            problems.map(|problem| Problem { topic: Some(topic.topic.clone()), problem })
        });
        of_process.chain(of_topics).collect()
    }

    fn problems_of(&self, topic: &TopicStats) -> Vec<String> {
        let mut problems: Vec<String> = topic.fault.iter().cloned().collect();
        let handler = topic.handler.as_ref();
        if let Some(open) = handler.map(|handler| handler.breakers_open).filter(|open| *open > 0) {
            problems.push(format!("the breaker is open in {open} daemons"));
        }
        let late = topic.late_ms.filter(|_| !topic.paused).map(Duration::from_millis);
        if let (Some(late), Some(max)) = (late, self.max_late)
            && late > max
        {
            let (late, max) = (format_duration(late), format_duration(max));
            problems.push(format!("the oldest ready job is {late} late, more than {max}"));
        }
        for (count, what, max) in [
            (topic.dead, "dead jobs", self.max_dead),
            (topic.retry, "jobs wait for their next attempt", self.max_retry),
            (topic.ready.saturating_add(topic.blocked), "due jobs wait", self.max_ready),
        ] {
            if let Some(max) = max.filter(|max| count > *max) {
                problems.push(format!("{count} {what}, more than {max}"));
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::stats::tests::topic;

    fn limits() -> CheckLimits {
        CheckLimits {
            check: true,
            max_late: Some(Duration::from_secs(10)),
            max_dead: Some(3),
            max_retry: None,
            max_ready: Some(100),
            min_daemons: 0,
        }
    }

    fn problems(limits: &CheckLimits, topics: Vec<TopicStats>) -> Vec<String> {
        let snapshot = Snapshot { topics, ..Snapshot::default() };
        limits.problems(&snapshot).into_iter().map(|problem| problem.problem).collect()
    }

    #[test]
    fn a_limit_is_passed_only_above_it() {
        let at = |late_ms, dead, ready| TopicStats {
            late_ms: Some(late_ms),
            dead,
            ready,
            blocked: 50,
            retry: 9_999,
            ..topic("mail")
        };
        assert!(problems(&limits(), vec![at(10_000, 3, 50)]).is_empty());
        assert_eq!(
            problems(&limits(), vec![at(10_001, 4, 51)]),
            [
                "the oldest ready job is 10s1ms late, more than 10s",
                "4 dead jobs, more than 3",
                "101 due jobs wait, more than 100"
            ]
        );
        let paused = TopicStats { paused: true, ..at(99_000, 0, 0) };
        assert!(problems(&limits(), vec![paused]).is_empty(), "a pause is wanted");
    }

    #[test]
    fn missing_daemons_and_unreadable_keys_are_always_wrong() {
        let none = CheckLimits { min_daemons: 1, ..limits() };
        assert_eq!(problems(&none, vec![]), ["0 daemons run, fewer than 1"]);
        let sick = TopicStats { fault: Some("ready is a text".to_owned()), ..topic("mail") };
        assert_eq!(problems(&limits(), vec![sick]), ["ready is a text"]);
        let snapshot = Snapshot { unreadable: vec!["duebox:topics".into()], ..Snapshot::default() };
        assert_eq!(limits().problems(&snapshot)[0].problem, "the key duebox:topics cannot be read");
    }
}
