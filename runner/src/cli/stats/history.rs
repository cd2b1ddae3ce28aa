//! What became of the modules of a topic, for people: a line for what is in trouble, and all that is known
//! as a table. Times are by the clock of the daemon that tells them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::handlers::{counted, short};
use crate::cli::support::output;
use crate::deploy::history::{Event, Role};

/// Characters of a reason that people see; JSON has all of it.
const REASON_MAX: usize = 200;

/// An event, and the daemon that tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Told {
    /// The daemon.
    pub(super) runner: String,
    /// What it tells.
    #[serde(flatten)]
    pub(super) event: Event,
}

/// A line for each module that was asked for and does not serve: where that is the last that a daemon tells
/// of its role. Daemons that tell the same share a line, with what the last of them said.
pub(super) fn troubles(topic: &str, history: &[Told]) -> Vec<String> {
    let mut last: BTreeMap<(&str, Role), &Event> = BTreeMap::new();
    for told in history {
        last.insert((&told.runner, told.event.role), &told.event);
    }
    let mut troubles: BTreeMap<_, (&Event, BTreeSet<&str>)> = BTreeMap::new();
    for ((runner, role), event) in last.into_iter().filter(|(_, event)| event.fate.is_trouble()) {
        let key = (role, event.fate.words(), &event.digest);
        let (newest, runners) = troubles.entry(key).or_insert_with(|| (event, BTreeSet::new()));
        runners.insert(runner);
        if event.at_ms > newest.at_ms {
            *newest = event;
        }
    }
    let line = |(event, runners): (&Event, BTreeSet<&str>)| {
        let by = match runners.first() {
            Some(runner) if runners.len() == 1 => output::plain(runner),
            _ => counted(runners.len()),
        };
        let reason = one_line(topic, &event.reason);
        let why = if reason.is_empty() { reason } else { format!(": {reason}") };
        let (role, what, when) = (event.role.word(), event.fate.words(), time(event));
        format!("{topic}: {role} {}{what} at {when} ({by}){why}", digest(event, " "))
    };
    troubles.into_values().map(line).collect()
}

/// What became of the modules of some topics, as a table below its title; none if nothing is known.
pub(super) fn table<'t>(topics: impl Iterator<Item = (&'t str, &'t [Told])>) -> Option<String> {
    let row = |topic: &str, told: &Told| {
        let event = &told.event;
        let (role, fate) = (event.role.word().to_owned(), event.fate.words().to_owned());
        let reason = one_line(topic, &event.reason);
        let runner = output::plain(&told.runner);
        vec![topic.to_owned(), time(event), role, digest(event, ""), fate, runner, reason]
    };
    let rows: Vec<_> =
        topics.flat_map(|(topic, all)| all.iter().map(move |told| row(topic, told))).collect();
    let header = ["topic", "when", "as", "module", "", "daemon", ""];
    (!rows.is_empty()).then(|| format!("\nhistory:\n{}", output::table(&header, &rows)))
}

fn digest(event: &Event, after: &str) -> String {
    event.digest.as_ref().map(|digest| short(digest) + after).unwrap_or_default()
}

/// To the second.
fn time(event: &Event) -> String {
    output::time(event.at_ms / 1_000 * 1_000)
}

/// The first line of a reason, without the topic that it begins with.
fn one_line(topic: &str, reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let line = line.strip_prefix(&format!("topic {topic}: ")).unwrap_or(line);
    match line.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{}…", output::plain(&line[..end])),
        None => output::plain(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deploy::history::Fate;

    fn told(runner: &str, at_ms: u64, role: Role, fate: Fate, reason: &str) -> Told {
        let (digest, reason) = (Some("ab".repeat(32)), reason.to_owned());
        Told { runner: runner.to_owned(), event: Event { at_ms, role, fate, digest, reason } }
    }

    #[test]
    fn what_is_in_trouble_has_a_line_until_a_good_module_serves() {
        let at = 1_795_262_401_000;
        let broken = "topic mail: the handler x.wasm is refused\nits log";
        let mut history = vec![
            told("a", at, Role::Handler, Fate::Refused, broken),
            told("b", at + 2_500, Role::Handler, Fate::Refused, broken),
            told("b", at, Role::Canary, Fate::RolledBackByHand, ""),
        ];
        let lines = troubles("mail", &history);
        assert_eq!(
            lines,
            [
                "mail: handler abababababab refused at 2026-11-21T12:00:03Z (2 running daemons): the handler x.wasm is refused",
                "mail: canary abababababab rolled back by hand at 2026-11-21T12:00:01Z (b)",
            ]
        );
        history.push(told("b", at + 9_000, Role::Handler, Fate::Served, ""));
        history.push(told("b", at + 9_000, Role::Canary, Fate::Left, ""));
        let lines = troubles("mail", &history);
        assert!(lines.len() == 1 && lines[0].contains("T12:00:01Z (a)"), "{lines:?}");
        history.push(told("a", at + 9_500, Role::Handler, Fate::Served, ""));
        assert!(troubles("mail", &history).is_empty());
        let table = table([("mail", history.as_slice())].into_iter()).unwrap();
        assert_eq!(table.lines().filter(|line| line.contains("abababababab")).count(), 6);
        assert!(!table.contains("its log"), "{table}");
    }

    #[test]
    fn a_long_reason_is_cut_and_cannot_steer_the_terminal() {
        let line = one_line("mail", &"\u{1b}ä".repeat(200));
        assert!(line.ends_with('…') && !line.contains('\u{1b}'), "{line}");
    }
}
