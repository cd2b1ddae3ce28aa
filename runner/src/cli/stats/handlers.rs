//! The handler part of `duebox stats`: the reports of running daemons on the modules of each topic,
//! combined. Times in the reports are by the daemons' own clocks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytesize::ByteSize;
use duebox_job::{TopicName, format_duration};
use duebox_queue::Queue;
use serde::Serialize;

use super::history::{self, ReportedEvent};
use crate::cli::support::failure::Failure;
use crate::cli::support::output;
use crate::deploy::history::ModuleEvent;
use crate::observe::module_stats::Sums;
use crate::report::status::{BreakerStatus, Status, TopicStatus};

/// Hex digits of a digest on the terminal, as in the log.
const SHORT: usize = 12;

/// Statistics of a topic's handlers, over all daemons that serve it.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(in crate::cli) struct HandlerStats {
    /// Number of daemons that serve it.
    pub(in crate::cli) runners: usize,
    /// The modules that serve it now; several while daemons differ.
    pub(in crate::cli) digests: BTreeSet<String>,
    /// The canary modules, each with its share of the jobs in percent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::cli) canaries: BTreeMap<String, f64>,
    /// The modules that a rollback restores.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(in crate::cli) before: BTreeSet<String>,
    /// The modules that were rolled back and stay out of use until the file or the manifest
    /// changes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(in crate::cli) withdrawn: BTreeSet<String>,
    /// Number of daemons whose breaker is open.
    pub(in crate::cli) breakers_open: usize,
    /// The 99th percentile of how late attempts started in the last minute, of the daemon where it is
    /// highest, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) late_p99_ms: Option<f64>,
    /// Totals since the daemons started.
    pub(in crate::cli) total: Sums,
    /// The same by module, for the modules that are still recorded.
    pub(in crate::cli) modules: BTreeMap<String, Sums>,
    /// Module history of each daemon, the oldest event first.
    history: Vec<ReportedEvent>,
}

/// Maximum number of API addresses in the output.
const APIS_MAX: usize = 20;

/// Reads the reports of the running daemons; reports of other versions as far as they can be
/// parsed. Adds the keys of those that cannot be read.
pub(super) async fn look(
    queue: &Queue,
    wanted: &[TopicName],
    unreadable: &mut Vec<String>,
) -> Result<Vec<Status>, Failure> {
    let reported = queue.statuses().await?;
    unreadable.extend(reported.unreadable);
    let read = |(_, text): &(String, String)| serde_json::from_str::<Status>(text).ok();
    let mut runners: Vec<Status> = reported.texts.iter().filter_map(read).collect();
    if !wanted.is_empty() {
        let is_wanted =
            |topic: &TopicStatus| wanted.iter().any(|name| name.as_str() == topic.topic);
        runners.iter_mut().for_each(|runner| runner.topics.retain(is_wanted));
    }
    Ok(runners)
}

/// The reports combined by topic.
pub(in crate::cli) fn by_topic(runners: &[Status]) -> BTreeMap<&str, HandlerStats> {
    let mut topics: BTreeMap<&str, HandlerStats> = BTreeMap::new();
    for runner in runners {
        for reported in &runner.topics {
            topics.entry(&reported.topic).or_default().add(&runner.runner, reported);
        }
    }
    topics
        .values_mut()
        .for_each(|stats| stats.history.sort_by_key(|reported| reported.event.at_ms));
    topics
}

impl HandlerStats {
    fn add(&mut self, runner: &str, reported: &TopicStatus) {
        self.runners += 1;
        self.digests.extend(reported.digest.clone());
        let canary = reported.canary.as_ref();
        self.canaries.extend(canary.map(|canary| (canary.digest.clone(), canary.percent)));
        self.before.extend(reported.before.clone());
        self.withdrawn.extend(reported.withdrawn.clone());
        let reported_by =
            |event: &ModuleEvent| ReportedEvent { runner: runner.to_owned(), event: event.clone() };
        self.history.extend(reported.history.iter().map(reported_by));
        self.breakers_open += usize::from(reported.breaker.is_some());
        let p99s = [self.late_p99_ms, reported.late_p99_ms].into_iter().flatten();
        self.late_p99_ms = p99s.reduce(f64::max);
        self.total.merge(&reported.total);
        for module in &reported.modules {
            self.modules.entry(module.digest.clone()).or_default().merge(&module.sums);
        }
    }

    /// A line for each module that was requested and does not serve.
    pub(super) fn trouble(&self, topic: &str) -> Vec<String> {
        history::trouble(topic, &self.history)
    }

    fn row(&self, topic: &str) -> Vec<String> {
        let module = match self.digests.len() {
            0 => "none yet".to_owned(),
            1 => self.digests.iter().map(|digest| short(digest)).collect(),
            many => format!("{many} modules"),
        };
        cells(topic, module, &self.total)
    }

    /// One row for each module that serves or has served.
    fn rows(&self, topic: &str) -> Vec<Vec<String>> {
        let other = self.canaries.keys().chain(&self.before).chain(&self.withdrawn);
        let all: BTreeSet<&String> =
            self.digests.iter().chain(self.modules.keys()).chain(other).collect();
        let row = |digest: &String| {
            let sums = self.modules.get(digest).cloned().unwrap_or_default();
            let mut row = cells(topic, short(digest), &sums);
            row.push(self.role(digest));
            row
        };
        all.into_iter().map(row).collect()
    }

    /// The role of a module.
    fn role(&self, digest: &str) -> String {
        if self.digests.contains(digest) {
            return "serves".to_owned();
        }
        match self.canaries.get(digest) {
            Some(percent) => format!("canary {percent}%"),
            None if self.withdrawn.contains(digest) => "rolled back".to_owned(),
            None if self.before.contains(digest) => "served last".to_owned(),
            None => "served".to_owned(),
        }
    }
}

/// The handler part as text: one row per topic, or per module if topics were named. Then open
/// breakers, failed modules and refused manifests; if topics were named, also their module history.
pub(super) fn describe(runners: &[Status], by_module: bool) -> String {
    if runners.is_empty() {
        return "no daemon runs; handler statistics are unavailable".to_owned();
    }
    let refused: Vec<String> = runners.iter().filter_map(refused).collect();
    let topics = by_topic(runners);
    if topics.is_empty() {
        let none = format!("{}, none serves these topics with a handler", counted(runners.len()));
        return [vec![none], refused].concat().join("\n");
    }
    let header =
        ["topic", "module", "attempts", "acked", "failed", "wall", "max", "cpu", "memory", ""];
    let table = if by_module {
        let rows: Vec<_> = topics.iter().flat_map(|(topic, handler)| handler.rows(topic)).collect();
        output::table(&header, &rows)
    } else {
        let rows: Vec<_> = topics.iter().map(|(topic, handler)| handler.row(topic)).collect();
        output::table(&header[..header.len() - 1], &rows)
    };
    let mut lines = vec![format!("handlers of {}:", counted(runners.len())), table];
    for runner in runners {
        let held = runner.topics.iter().filter_map(|topic| Some((topic, topic.breaker?)));
        lines.extend(held.map(|(topic, breaker)| held_back(topic, breaker, runner)));
        if runner.more_topics > 0 {
            lines.push(format!("and {} more topics of {}", runner.more_topics, runner.runner));
        }
    }
    for (topic, stats) in &topics {
        lines.extend(history::problems(topic, &stats.history));
    }
    lines.extend(refused);
    let api = |runner: &Status| Some(format!("{} serves HTTP on {}", runner.runner, runner.api?));
    lines.extend(runners.iter().filter_map(api).take(APIS_MAX));
    if by_module {
        let histories = topics.iter().map(|(topic, stats)| (*topic, stats.history.as_slice()));
        lines.extend(history::table(histories));
    }
    lines.join("\n")
}

/// A refused manifest, on its own line.
fn refused(runner: &Status) -> Option<String> {
    let refusal = runner.manifest_refused.as_ref()?;
    let since = output::time(refusal.since_ms / 1_000 * 1_000);
    let at = refusal.line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let more = match refusal.problems.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let (by, problem) = (output::one_line(&runner.runner), output::one_line(&refusal.problem));
    Some(format!(
        "the manifest is refused since {since}, the previous one is in use ({by}): {at}{problem}{more}"
    ))
}

/// An open breaker, on its own line.
fn held_back(topic: &TopicStatus, breaker: BreakerStatus, runner: &Status) -> String {
    let span = |from: u64, to: u64| {
        format_duration(Duration::from_millis(
            output::rounded(to.saturating_sub(from)) / 1_000 * 1_000,
        ))
    };
    let since = span(breaker.open_since_ms, runner.told_at_ms);
    let then = match breaker.probe_at_ms {
        Some(at) => format!("next probe in {}", span(runner.told_at_ms, at)),
        None => "a probe is running".to_owned(),
    };
    format!("{}: breaker open for {since}, {then} ({})", topic.topic, runner.runner)
}

fn cells(topic: &str, module: String, sums: &Sums) -> Vec<String> {
    let if_any = |text: String| if sums.attempts == 0 { "-".to_owned() } else { text };
    vec![
        topic.to_owned(),
        module,
        sums.attempts.to_string(),
        sums.acked.to_string(),
        if_any(percent(sums.failed_part())),
        if_any(duration_text(sums.wall_mean())),
        if_any(duration_text(sums.wall_max)),
        if_any(duration_text(sums.cpu_mean())),
        if_any(ByteSize(sums.memory_peak).display().iec_short().to_string()),
    ]
}

pub(in crate::cli) fn short(digest: &str) -> String {
    output::one_line(&digest.chars().take(SHORT).collect::<String>())
}

pub(in crate::cli) fn counted(runners: usize) -> String {
    format!("{runners} running {}", if runners == 1 { "daemon" } else { "daemons" })
}

/// A share in percent; a small share is distinct from zero.
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0%".to_owned(),
        few if few < 0.1 => "0.1%".to_owned(),
        some if some < 10.0 => format!("{some:.1}%"),
        many => format!("{many:.0}%"),
    }
}

/// A duration with about three digits.
fn duration_text(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1_000 => format!("{us}µs"),
        us @ 1_000..10_000 => format!("{:.1}ms", us as f64 / 1e3),
        us @ 10_000..1_000_000 => format!("{}ms", us / 1_000),
        us @ 1_000_000..10_000_000 => format!("{:.1}s", us as f64 / 1e6),
        us => format_duration(Duration::from_secs((us / 1_000_000) as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::tally::Tally;
    use crate::report::process::ProcessStatus;
    use crate::report::status::{CanaryStatus, ModuleStatus};

    fn sums(attempts: u64, failed: u64, wall_ms: u64) -> Sums {
        let (wall, acked) = (Duration::from_millis(wall_ms), attempts.saturating_sub(failed));
        Sums {
            attempts,
            acked,
            failed,
            wall,
            wall_max: wall,
            memory_peak: 1 << 17,
            ..Sums::default()
        }
    }

    fn runner(digest: &str, jobs: u64, breaker: Option<BreakerStatus>) -> Status {
        let modules = [(digest, sums(jobs, 1, 30)), ("cc", sums(2, 0, 1))];
        let modules = modules.map(|(digest, sums)| ModuleStatus { digest: digest.into(), sums });
        let mut total = sums(jobs, 1, 30);
        total.merge(&sums(2, 0, 1));
        let topic = TopicStatus {
            topic: "mail".to_owned(),
            digest: Some(digest.to_owned()),
            canary: None,
            before: Some("cc".to_owned()),
            withdrawn: None,
            history: Vec::new(),
            breaker,
            late_p99_ms: None,
            modules: modules.into(),
            total,
            tally: Tally::default(),
            failures: Vec::new(),
        };
        Status {
            runner: "5-a".to_owned(),
            version: "1".to_owned(),
            pid: 5,
            api: None,
            started_at_ms: 0,
            told_at_ms: 60_000,
            topics: vec![topic],
            more_topics: 0,
            manifest_refused: None,
            process: ProcessStatus::default(),
            pulled: Vec::new(),
        }
    }

    #[test]
    fn reports_are_combined_by_topic() {
        let runners = [runner("aa", 8, None), runner("bb", 4, None)];
        let mail = &by_topic(&runners)["mail"];
        assert_eq!((mail.runners, mail.total.attempts, mail.total.failed), (2, 16, 2));
        assert_eq!((mail.modules["aa"].attempts, mail.modules["cc"].attempts), (8, 4));
        let text = describe(&runners, false);
        assert!(
            text.contains("mail   2 modules        16     14     12%  3.9ms  30ms  0µs"),
            "{text}"
        );
        assert!(text.ends_with("128.0K"), "{text}");
        let text = describe(&runners, true);
        assert_eq!(text.matches("  serves").count(), 2, "{text}");
        assert_eq!(text.matches("  served last").count(), 1, "{text}");
    }

    #[test]
    fn canaries_and_rolled_back_modules_have_rows() {
        let mut reported = runner("aa", 8, None);
        let topic = &mut reported.topics[0];
        topic.canary = Some(CanaryStatus { digest: "dd".into(), percent: 12.5 });
        (topic.before, topic.withdrawn) = (None, Some("cc".into()));
        let text = describe(&[reported], true);
        assert!(text.contains("canary 12.5%") && text.contains("rolled back"), "{text}");
        assert!(!text.contains("served"), "{text}");
        let mut waiting = runner("aa", 8, None);
        waiting.topics[0].digest = None;
        assert!(describe(&[waiting], false).contains("none yet"));
    }

    #[test]
    fn an_open_breaker_has_its_own_line() {
        let breaker = BreakerStatus { open_since_ms: 48_100, probe_at_ms: Some(78_000) };
        let text = describe(&[runner("aa", 8, Some(breaker))], false);
        let last = text.lines().last().unwrap();
        assert_eq!(last, "mail: breaker open for 11s, next probe in 18s (5-a)");
        let trying = BreakerStatus { probe_at_ms: None, ..breaker };
        assert!(describe(&[runner("aa", 8, Some(trying))], true).contains("a probe is running"));
    }

    #[test]
    fn missing_daemons_and_handlers_are_reported() {
        assert!(describe(&[], false).starts_with("no daemon runs"));
        let idle = Status { topics: Vec::new(), ..runner("aa", 1, None) };
        assert_eq!(
            describe(&[idle], true),
            "1 running daemon, none serves these topics with a handler"
        );
    }

    #[test]
    fn numbers_are_short_and_rare_failures_are_not_zero() {
        let text = |us| duration_text(Duration::from_micros(us));
        assert_eq!([text(0), text(999), text(1_500)], ["0µs", "999µs", "1.5ms"]);
        assert_eq!([text(12_345), text(2_500_000), text(90_000_000)], ["12ms", "2.5s", "1m30s"]);
        assert_eq!([percent(0.0), percent(0.000_01)], ["0%", "0.1%"]);
        assert_eq!([percent(0.034), percent(1.0)], ["3.4%", "100%"]);
    }
}
