//! What happened in a session, in its order: the lines that a terminal shows and a pipe gets. The texts are safe for a
//! terminal, and only the last [`ENTRIES_MAX`] are kept.

use std::collections::VecDeque;

use jiff::Zoned;

use crate::observe::printable;

/// The most lines that are kept.
const ENTRIES_MAX: usize = 5_000;
/// The longest line, in characters; the rest is left out.
const TEXT_MAX: usize = 4_000;
/// The width of labels in lines without a terminal.
const LABEL_WIDTH: usize = 8;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Dim,
    Good,
    Warning,
    Bad,
}

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The local time, to the millisecond.
    pub(super) at: String,
    /// What it is about, in a word; empty for a further line.
    pub(super) label: String,
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// The lines of a session.
#[derive(Debug, Default)]
pub(super) struct Feed {
    entries: VecDeque<Entry>,
    /// How many of the last ones were not taken yet.
    new: usize,
}

impl Entry {
    /// The line without a terminal.
    pub(super) fn line(&self) -> String {
        format!("{} {:LABEL_WIDTH$} {}", self.at, self.label, self.text).trim_end().to_owned()
    }
}

impl Feed {
    /// Adds a text; its further lines have no label.
    pub(super) fn add(&mut self, label: &str, tone: Tone, text: &str) {
        let at = Zoned::now().strftime("%H:%M:%S%.3f").to_string();
        for (number, line) in without_colours(text).lines().enumerate() {
            let label = if number == 0 { label } else { "" };
            // Tabs have no fixed width.
            let text: String = line.replace('\t', "    ").chars().take(TEXT_MAX).collect();
            let (label, text) = (printable::one_line(label), printable::one_line(&text));
            self.entries.push_back(Entry { at: at.clone(), label, text, tone });
            self.new += 1;
        }
        while self.entries.len() > ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.new = self.new.min(self.entries.len());
    }

    /// All lines, the last one first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().rev()
    }

    /// The lines since the last call.
    pub(super) fn take_new(&mut self) -> Vec<Entry> {
        let from = self.entries.len() - std::mem::take(&mut self.new);
        self.entries.range(from..).cloned().collect()
    }

    /// Forgets all lines.
    pub(super) fn clear(&mut self) {
        (self.entries, self.new) = (VecDeque::new(), 0);
    }
}

/// A text without the sequences that set colours, which some compilers write to a pipe too.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end.and_then(|end| part[end..].strip_prefix('m')) {
            Some(rest) => plain.push_str(rest),
            None => {
                plain.push_str("\x1b[");
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_safe_bounded_and_taken_once() {
        let mut feed = Feed::default();
        feed.add("log", Tone::Plain, "\x1b[1;31mone\x1b[2J\x1b[0m\n\ttwo");
        let lines: Vec<String> =
            feed.take_new().iter().map(|it| it.line()[13..].to_owned()).collect();
        assert_eq!(lines, ["log      one\\u{1b}[2J", "             two"]);
        assert!(feed.take_new().is_empty());
        for number in 0..=ENTRIES_MAX {
            feed.add("log", Tone::Plain, &number.to_string());
        }
        assert_eq!(feed.take_new().len(), ENTRIES_MAX);
        assert_eq!(feed.newest_first().next().unwrap().text, ENTRIES_MAX.to_string());
    }
}
