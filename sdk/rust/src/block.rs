//! Blocks (`docs/reference/abi.md`): lines `name: value` by which the host is told what a request or a follow-up
//! is, and tells what an answer's headers are.
//!
//! Invariant: a block has the lines it was given and no other; a name or a value that could make two
//! of one is refused.

/// A block that grows line by line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Block(String);

/// The name or the value cannot stand in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLine;

impl Block {
    /// Adds a line.
    pub(crate) fn line(&mut self, name: &str, value: &str) -> Result<(), NoLine> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        if !name.chars().all(allowed) || value.chars().any(char::is_control) {
            return Err(NoLine);
        }
        for part in [name, ": ", value, "\n"] {
            self.0.push_str(part);
        }
        Ok(())
    }

    /// Adds a line if there is a value.
    pub(crate) fn text(&mut self, name: &str, value: Option<&str>) -> Result<(), NoLine> {
        value.map_or(Ok(()), |value| self.line(name, value))
    }

    /// Adds a line if there is a number.
    pub(crate) fn number(&mut self, name: &str, value: Option<u128>) -> Result<(), NoLine> {
        value.map_or(Ok(()), |value| self.line(name, &value.to_string()))
    }

    /// The block that the host wrote.
    pub(crate) fn read(text: String) -> Self {
        Self(text)
    }

    /// Its lines, as names and values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once(": "))
    }

    /// The text that the host reads.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
