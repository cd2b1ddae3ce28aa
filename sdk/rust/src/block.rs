//! Blocks (`docs/reference/abi.md`): lines `name: value` that describe a request or a follow-up to the host,
//! and a response's headers to the guest.
//!
//! Invariant: a block has exactly the lines that were added. A name or a value that would forge a
//! second line is refused.

/// A block that is built line by line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Block(String);

/// The name or the value is not allowed in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidLine;

impl Block {
    /// Adds a line.
    pub(crate) fn line(&mut self, name: &str, value: &str) -> Result<(), InvalidLine> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        if !name.chars().all(allowed) || value.chars().any(char::is_control) {
            return Err(InvalidLine);
        }
        for part in [name, ": ", value, "\n"] {
            self.0.push_str(part);
        }
        Ok(())
    }

    /// Adds a line if there is a value.
    pub(crate) fn text(&mut self, name: &str, value: Option<&str>) -> Result<(), InvalidLine> {
        value.map_or(Ok(()), |value| self.line(name, value))
    }

    /// Adds a line if there is a number.
    pub(crate) fn number(&mut self, name: &str, value: Option<u128>) -> Result<(), InvalidLine> {
        value.map_or(Ok(()), |value| self.line(name, &value.to_string()))
    }

    /// Wraps a block that the host wrote.
    pub(crate) fn read(text: String) -> Self {
        Self(text)
    }

    /// Its lines as pairs of name and value.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once(": "))
    }

    /// The text that the host reads.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
