//! Lines of the JSON log for a terminal too: JSON allows characters in its strings that a terminal obeys.

use std::io::{self, Write};

use crate::observe::printable;

/// Escapes such characters in each line, which stays the same value. Each write is one line.
pub(super) struct JsonWriter<W>(pub(super) W);

impl<W: Write> Write for JsonWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // JSON has escaped what comes before the space. Most lines are ASCII, which is seen at once.
        if line.is_ascii() && !line.contains(&0x7f) {
            self.0.write_all(line)?;
        } else {
            let text = String::from_utf8_lossy(line);
            let (text, end) = text.strip_suffix('\n').map_or((&*text, ""), |text| (text, "\n"));
            self.0.write_all([&printable::json(text), end].concat().as_bytes())?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_with_its_value() {
        let mut written = Vec::new();
        let mut writer = JsonWriter(&mut written);
        for line in ["{\"a\":\"b\"}\n", "{\"a\":\"\u{9b}2J\u{202e}\x7fä\"}\n"] {
            writer.write_all(line.as_bytes()).unwrap();
        }
        let expected = "{\"a\":\"b\"}\n{\"a\":\"\\u009b2J\\u202e\\u007fä\"}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }
}
