//! Text of strangers, made safe for a terminal and for a line of the log: ids of plain producers, reasons
//! of guests, names of imports.
//!
//! Control characters could move the cursor, change the title or start a line that looks like one of the
//! daemon; characters that change the direction of text could hide what follows. They are escaped.

use std::fmt::{self, Write};

/// One line: line feeds and tabs are escaped too.
pub fn one_line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Text with its lines and tabs.
pub fn lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// JSON, with the same characters escaped as JSON escapes them: its value stays the same. They stand in
/// its strings only.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        if !is_unsafe(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    safe
}

/// A writer that passes on one line.
pub struct OneLine<'w>(pub &'w mut dyn Write);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_unsafe(*c)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", c.escape_default())?;
            rest = &rest[at + c.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && !is_kept(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// Control characters, line and paragraph separators, and those that set the direction of text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\x1b[2Jb\tc\n\r\u{9b}\u{202e}ä";
        assert_eq!(lines(text), "a\\u{1b}[2Jb\tc\n\\r\\u{9b}\\u{202e}ä");
        assert_eq!(one_line(text), "a\\u{1b}[2Jb\\tc\\n\\r\\u{9b}\\u{202e}ä");
        let mut written = String::new();
        write!(OneLine(&mut written), "{text}").unwrap();
        assert_eq!(written, one_line(text));
    }

    #[test]
    fn json_keeps_its_value() {
        let text = "a\x1b[2J\x7f\u{9b}\u{202e}\u{200f}\u{1f600}ä\n\"";
        let written = serde_json::Value::from(text).to_string();
        let safe = json(&written);
        assert!(!safe.chars().any(is_unsafe), "{safe}");
        assert!(safe.contains("\\u009b\\u202e\\u200f\u{1f600}ä"), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), text);
    }
}
