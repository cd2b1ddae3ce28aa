//! The last lines of a job's log, which are kept with a job that fails.
//!
//! Lines and bytes are bounded. Nothing is allocated before the first line, and a full tail reuses the
//! buffer of its oldest line.

use std::collections::VecDeque;

/// How many lines are kept.
const LINES_MAX: usize = 64;
/// The longest line including its level, in bytes.
const LINE_MAX: usize = 1 << 10;

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub(crate) struct LogTail(VecDeque<String>);

impl LogTail {
    /// Adds a line, cut between characters. Drops the oldest line if the tail is full.
    pub(crate) fn push(&mut self, level: &str, text: &str) {
        let mut line = match self.0.len() {
            LINES_MAX => self.0.pop_front().unwrap_or_default(),
            _ => String::new(),
        };
        line.clear();
        let text_max = LINE_MAX - level.len() - ": ".len();
        line.extend([level, ": ", &text[..text.floor_char_boundary(text_max)]]);
        self.0.push_back(line);
    }

    /// Takes the lines.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut tail = LogTail::default();
        assert_eq!(tail.take(), Vec::<String>::new());
        for number in 0..100 {
            tail.push("info", &number.to_string());
        }
        let wanted: Vec<String> = (36..100).map(|number| format!("info: {number}")).collect();
        assert_eq!(tail.take(), wanted);
        assert_eq!(tail.take(), Vec::<String>::new());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let mut tail = LogTail::default();
        tail.push("error", &"ä".repeat(1_000));
        tail.push("warn", "");
        let lines = tail.take();
        assert_eq!((lines[0].len(), lines[1].as_str()), (1_023, "warn: "));
        assert!(lines[0].starts_with("error: ä") && lines[0].ends_with('ä'));
    }
}
