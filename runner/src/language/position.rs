//! A place in a source.

use std::fmt;

/// The longest source line that is shown, in characters.
const LINE_MAX: usize = 160;

/// A place in a source, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    file: String,
    line: usize,
    column: usize,
    text: String,
}

impl Position {
    /// The place at an offset in bytes.
    pub(super) fn of(file: &str, source: &str, offset: usize) -> Self {
        let offset = source.floor_char_boundary(offset);
        let before = &source[..offset];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            text: source[start..]
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(LINE_MAX)
                .collect(),
        }
    }

    /// The source line, with a mark below the column.
    pub(super) fn shown(&self) -> String {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let before: String = self.text.chars().take(self.column - 1).collect();
        let blanks: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        format!("{number} | {}\n{margin} | {blanks}^", self.text)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_lines_and_characters() {
        let source = "const a = 1;\nconst ü = ;\n";
        let at = Position::of("a.js", source, source.find("= ;").unwrap());
        assert_eq!(at.to_string(), "a.js:2:9");
        assert_eq!(at.shown(), "2 | const ü = ;\n  |         ^");
        assert_eq!(Position::of("a.js", source, 1_000).to_string(), "a.js:3:1");
        assert_eq!(Position::of("a.js", "", 0).to_string(), "a.js:1:1");
    }
}
