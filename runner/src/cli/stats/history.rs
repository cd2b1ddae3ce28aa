//! The module history of a topic as text: a line for each problem, and a table of all events. Times
//! are by the clock of the daemon that reports them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::handlers::{counted, short};
use crate::cli::support::output;
use crate::deploy::history::{ModuleEvent, Role};

/// Characters of a reason on the terminal; JSON has the full text.
const REASON_MAX: usize = 200;

/// An event and the daemon that reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct ReportedEvent {
    /// The daemon.
    pub(super) runner: String,
    /// The event.
    #[serde(flatten)]
    pub(super) event: ModuleEvent,
}

/// One line for each module that was requested and does not serve, judged by the last event of its
/// role. Daemons with the same event share a line, with the latest reason.
pub(super) fn problems(topic: &str, history: &[ReportedEvent]) -> Vec<String> {
    trouble(topic, history).iter().map(|line| format!("{topic}: {line}")).collect()
}

/// The same lines without the topic.
pub(super) fn trouble(topic: &str, history: &[ReportedEvent]) -> Vec<String> {
    let mut last: BTreeMap<(&str, Role), &ModuleEvent> = BTreeMap::new();
    for reported in history {
        last.insert((&reported.runner, reported.event.role), &reported.event);
    }
    let mut problems: BTreeMap<_, (&ModuleEvent, BTreeSet<&str>)> = BTreeMap::new();
    for ((runner, role), event) in last.into_iter().filter(|(_, event)| event.fate.is_trouble()) {
        let key = (role, event.fate.words(), &event.digest);
        let (newest, runners) = problems.entry(key).or_insert_with(|| (event, BTreeSet::new()));
        runners.insert(runner);
        if event.at_ms > newest.at_ms {
            *newest = event;
        }
    }
    let line = |(event, runners): (&ModuleEvent, BTreeSet<&str>)| {
        let by = match runners.first() {
            Some(runner) if runners.len() == 1 => output::one_line(runner),
            _ => counted(runners.len()),
        };
        let reason = one_line(topic, &event.reason);
        let why = if reason.is_empty() { reason } else { format!(": {reason}") };
        let (role, what, when) = (event.role.word(), event.fate.words(), time(event));
        format!("{role} {}{what} at {when} ({by}){why}", digest(event, " "))
    };
    problems.into_values().map(line).collect()
}

/// The history of some topics as a titled table; `None` if it is empty.
pub(super) fn table<'t>(
    topics: impl Iterator<Item = (&'t str, &'t [ReportedEvent])>,
) -> Option<String> {
    let row = |topic: &str, reported: &ReportedEvent| {
        let event = &reported.event;
        let (role, fate) = (event.role.word().to_owned(), event.fate.words().to_owned());
        let reason = one_line(topic, &event.reason);
        let runner = output::one_line(&reported.runner);
        vec![topic.to_owned(), time(event), role, digest(event, ""), fate, runner, reason]
    };
    let rows: Vec<_> = topics
        .flat_map(|(topic, all)| all.iter().map(move |reported| row(topic, reported)))
        .collect();
    let header = ["topic", "when", "as", "module", "", "daemon", ""];
    (!rows.is_empty()).then(|| format!("\nhistory:\n{}", output::table(&header, &rows)))
}

fn digest(event: &ModuleEvent, after: &str) -> String {
    event.digest.as_ref().map(|digest| short(digest) + after).unwrap_or_default()
}

/// The time of an event, in seconds.
fn time(event: &ModuleEvent) -> String {
    output::time(event.at_ms / 1_000 * 1_000)
}

/// The first line of a reason, without the topic prefix.
fn one_line(topic: &str, reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let line = line.strip_prefix(&format!("topic {topic}: ")).unwrap_or(line);
    match line.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{}…", output::one_line(&line[..end])),
        None => output::one_line(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::history::ModuleChange;

    fn reported(
        runner: &str,
        at_ms: u64,
        role: Role,
        fate: ModuleChange,
        reason: &str,
    ) -> ReportedEvent {
        let (digest, reason) = (Some("ab".repeat(32)), reason.to_owned());
        ReportedEvent {
            runner: runner.to_owned(),
            event: ModuleEvent { at_ms, role, fate, digest, reason },
        }
    }

    #[test]
    fn a_problem_has_a_line_until_a_valid_module_serves() {
        let at = 1_795_262_401_000;
        let broken = "topic mail: the handler x.wasm is refused\nits log";
        let mut history = vec![
            reported("a", at, Role::Handler, ModuleChange::Refused, broken),
            reported("b", at + 2_500, Role::Handler, ModuleChange::Refused, broken),
            reported("b", at, Role::Canary, ModuleChange::RolledBackByHand, ""),
        ];
        let lines = problems("mail", &history);
        assert_eq!(
            lines,
            [
                "mail: handler abababababab refused at 2026-11-21T12:00:03Z (2 running daemons): the handler x.wasm is refused",
                "mail: canary abababababab rolled back by hand at 2026-11-21T12:00:01Z (b)",
            ]
        );
        history.push(reported("b", at + 9_000, Role::Handler, ModuleChange::Served, ""));
        history.push(reported("b", at + 9_000, Role::Canary, ModuleChange::Left, ""));
        let lines = problems("mail", &history);
        assert!(lines.len() == 1 && lines[0].contains("T12:00:01Z (a)"), "{lines:?}");
        history.push(reported("a", at + 9_500, Role::Handler, ModuleChange::Served, ""));
        assert!(problems("mail", &history).is_empty());
        let table = table([("mail", history.as_slice())].into_iter()).unwrap();
        assert_eq!(table.lines().filter(|line| line.contains("abababababab")).count(), 6);
        assert!(!table.contains("its log"), "{table}");
    }

    #[test]
    fn a_long_reason_is_cut_and_escaped() {
        let line = one_line("mail", &"\u{1b}ä".repeat(200));
        assert!(line.ends_with('…') && !line.contains('\u{1b}'), "{line}");
    }
}
