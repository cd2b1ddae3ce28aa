//! `duebox stats --check`: says what is wrong, for scripts and probes.
//!
//! Always wrong are keys that cannot be read, open breakers, refused manifests, modules that were refused or rolled
//! back, topics of the manifest that no daemon serves, fewer daemons than asked for, and schedules of paused topics.
//! Counts, lateness and the share of failed attempts are wrong above the limits that are given.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_job::{TopicName, format_duration, parse_duration};
use duebox_queue::Queue;
use serde::Serialize;

use super::{Snapshot, TopicStats};
use crate::cli::support::failure::{FAILED, Failure};
use crate::cli::support::output;
use crate::manifest::Manifest;
use crate::observe::history::{PublishedHistory, RECENT_MS};
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
    /// Wrong if a larger share of a topic's attempts failed in the last ten minutes, in percent
    #[arg(long, value_name = "PERCENT", requires = "check", value_parser = clap::value_parser!(u8).range(0..=100))]
    max_failed: Option<u8>,
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
pub(super) struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    problem: String,
}

/// Prints what is wrong.
pub(super) fn report(
    snapshot: &Snapshot,
    problems: Vec<Problem>,
    json: bool,
) -> Result<ExitCode, Failure> {
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

/// The attempts of the last ten minutes by topic, and how many of them failed.
#[derive(Default)]
pub(super) struct Recent(BTreeMap<TopicName, (u32, u32)>);

impl Recent {
    /// Reads what the running daemons have published of their history, if a limit needs it.
    pub(super) async fn read(
        queue: &Queue,
        snapshot: &Snapshot,
        limits: &CheckLimits,
    ) -> Result<Self, Failure> {
        let mut recent = Self::default();
        if limits.max_failed.is_none() {
            return Ok(recent);
        }
        let fields = PublishedHistory::fields(snapshot.now_ms, RECENT_MS);
        for runner in &snapshot.runners {
            let found = queue.history_fields(&runner.runner, &fields).await?;
            for (topic, sample) in PublishedHistory::read(&found).topics() {
                let counts = recent.0.entry(topic.clone()).or_default();
                counts.0 += sample.tally.attempts();
                counts.1 += sample.tally.failed();
            }
        }
        Ok(recent)
    }

    /// What is wrong with the share of failed attempts of a topic.
    fn problem(&self, topic: &str, max: u8) -> Option<String> {
        let (attempts, failed) = *self.0.get(&TopicName::new(topic).ok()?)?;
        let is_more = u64::from(failed) * 100 > u64::from(attempts) * u64::from(max);
        let share = f64::from(failed) * 100.0 / f64::from(attempts.max(1));
        is_more.then(|| {
            format!("{failed} of {attempts} attempts failed in the last ten minutes, {share:.0} %, more than {max} %")
        })
    }
}

/// A topic of the manifest whose handler runs nowhere.
fn unserved(topic: &TopicStats) -> Option<String> {
    let serves = topic.handler.as_ref().is_some_and(|handler| !handler.digests.is_empty());
    let is_wrong = topic.bound && !topic.pulled && !serves;
    is_wrong
        .then(|| "no daemon serves it: its handler was refused, or is still compiling".to_owned())
}

impl CheckLimits {
    /// What is wrong.
    pub(super) fn problems(
        &self,
        snapshot: &Snapshot,
        manifest: &Manifest,
        recent: &Recent,
    ) -> Vec<Problem> {
        let mut problems = self.of_snapshot(snapshot);
        if let Some(max) = self.max_failed {
            problems.extend(snapshot.topics.iter().filter_map(|topic| {
                let problem = recent.problem(&topic.topic, max)?;
                Some(Problem { topic: Some(topic.topic.clone()), problem })
            }));
        }
        problems.extend(idle_schedules(snapshot, manifest));
        problems
    }

    fn of_snapshot(&self, snapshot: &Snapshot) -> Vec<Problem> {
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
            let mut problems = self.problems_of(topic);
            // Without any daemon that is said already.
            problems.extend(unserved(topic).filter(|_| running > 0));
            let problems = problems.into_iter();
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
        problems.extend(handler.into_iter().flat_map(|handler| handler.trouble(&topic.topic)));
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
    use crate::cli::stats::handlers::HandlerStats;
    use crate::cli::stats::tests::topic;

    fn limits() -> CheckLimits {
        CheckLimits {
            check: true,
            max_late: Some(Duration::from_secs(10)),
            max_dead: Some(3),
            max_retry: None,
            max_ready: Some(100),
            max_failed: None,
            min_daemons: 0,
        }
    }

    fn problems(limits: &CheckLimits, topics: Vec<TopicStats>) -> Vec<String> {
        let snapshot = Snapshot { topics, ..Snapshot::default() };
        limits.of_snapshot(&snapshot).into_iter().map(|problem| problem.problem).collect()
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
    fn a_topic_that_no_daemon_serves_is_wrong_and_a_pulled_one_is_not() {
        let mail = TopicStats { pulled: false, ..topic("mail") };
        assert!(unserved(&mail).is_some());
        let mut serves = HandlerStats::default();
        serves.digests.insert("aa".to_owned());
        assert_eq!(unserved(&TopicStats { handler: Some(serves), ..mail }), None);
        assert_eq!(unserved(&topic("pulled")), None);
        assert_eq!(unserved(&TopicStats { bound: false, pulled: false, ..topic("other") }), None);
    }

    #[test]
    fn the_share_of_failed_attempts_is_wrong_above_the_limit() {
        let recent = Recent(BTreeMap::from([(TopicName::new("mail").unwrap(), (40, 4))]));
        assert_eq!(recent.problem("mail", 10), None);
        assert_eq!(
            recent.problem("mail", 9).unwrap(),
            "4 of 40 attempts failed in the last ten minutes, 10 %, more than 9 %"
        );
        assert_eq!(recent.problem("idle", 0), None);
    }

    #[test]
    fn missing_daemons_and_unreadable_keys_are_always_wrong() {
        let none = CheckLimits { min_daemons: 1, ..limits() };
        assert_eq!(problems(&none, vec![]), ["0 daemons run, fewer than 1"]);
        let sick = TopicStats { fault: Some("ready is a text".to_owned()), ..topic("mail") };
        assert_eq!(problems(&limits(), vec![sick]), ["ready is a text"]);
        let snapshot = Snapshot { unreadable: vec!["duebox:topics".into()], ..Snapshot::default() };
        assert_eq!(
            limits().of_snapshot(&snapshot)[0].problem,
            "the key duebox:topics cannot be read"
        );
    }
}
