//! The last lines of a job's log, kept as evidence for a job that fails. Bounded in lines and bytes;
//! nothing is allocated before the first line, and a full tail reuses the room of its oldest line.

use std::collections::VecDeque;

use crate::imports::log::Level;

/// Lines that are kept.
const LINES_MAX: usize = 64;
/// The longest line with its level, in bytes.
const LINE_MAX: usize = 1 << 10;

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    /// Keeps a line, cut between characters.
    pub(crate) fn keep(&mut self, level: Level, text: &str) {
        let mut line = match self.0.len() {
            LINES_MAX => self.0.pop_front().unwrap_or_default(),
            _ => String::new(),
        };
        line.clear();
        let level = level.name();
        let room = LINE_MAX - level.len() - ": ".len();
        line.extend([level, ": ", &text[..text.floor_char_boundary(room)]]);
        self.0.push_back(line);
    }

    /// Hands the lines over.
    pub(crate) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_stay() {
        let mut tail = Tail::default();
        assert_eq!(tail.take(), Vec::<String>::new());
        for number in 0..100 {
            tail.keep(Level::Info, &number.to_string());
        }
        let wanted: Vec<String> = (36..100).map(|number| format!("info: {number}")).collect();
        assert_eq!(tail.take(), wanted);
        assert_eq!(tail.take(), Vec::<String>::new());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let mut tail = Tail::default();
        tail.keep(Level::Error, &"ä".repeat(1_000));
        tail.keep(Level::Warn, "");
        let lines = tail.take();
        assert_eq!((lines[0].len(), lines[1].as_str()), (1_023, "warn: "));
        assert!(lines[0].starts_with("error: ä") && lines[0].ends_with('ä'));
    }
}
