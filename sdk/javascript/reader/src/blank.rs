//! The parts of a file that are replaced: types by blanks, enums and the like by JavaScript.

use std::borrow::Cow;

use oxc_span::Span;

/// Parts in any order. A part may contain another one, which is then ignored.
pub(crate) struct Blanks<'a> {
    source: &'a str,
    parts: Vec<Part>,
}

/// A part, and the text in its place. Blanks follow the text, up to the length of the part; line breaks stay.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) text: Cow<'static, str>,
}

impl<'a> Blanks<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self { source, parts: Vec::new() }
    }

    /// Blanks a part of an expression or a declaration.
    pub(crate) fn add(&mut self, start: u32, end: u32) {
        if start < end {
            self.replace(start, end, "");
        }
    }

    /// Replaces a part by a text without line breaks, or inserts the text if the part is empty.
    pub(crate) fn replace(&mut self, start: u32, end: u32, text: impl Into<Cow<'static, str>>) {
        self.parts.push(Part { start, end, text: text.into() });
    }

    pub(crate) fn add_span(&mut self, span: Span) {
        self.add(span.start, span.end);
    }

    /// Blanks a whole statement, or the end of one. A semicolon stays, so that what follows does not continue the
    /// statement before.
    pub(crate) fn add_statement(&mut self, start: u32, end: u32) {
        if start < end {
            self.replace(start, end, ";");
        }
    }

    /// Moves a closing parenthesis to the end of the type behind it, and blanks the rest.
    pub(crate) fn move_parenthesis(&mut self, from: u32, end: u32) {
        self.add(from, end - 1);
        self.replace(end - 1, end, ")");
    }

    /// Whether a part goes over several lines.
    pub(crate) fn has_line_break(&self, span: Span) -> bool {
        self.text(span.start, span.end).contains(['\n', '\r', '\u{2028}', '\u{2029}'])
    }

    /// Blanks a part and the comma after it.
    pub(crate) fn add_with_comma(&mut self, span: Span) {
        let rest = self.text(span.end, self.source.len() as u32);
        let blanks = rest.len() - rest.trim_start().len();
        let has_comma = rest[blanks..].starts_with(',');
        let comma = if has_comma { blanks as u32 + 1 } else { 0 };
        self.add(span.start, span.end + comma);
    }

    /// Blanks the first of these characters between two offsets.
    pub(crate) fn add_mark(&mut self, start: u32, end: u32, mark: char) {
        if let Some(at) = self.text(start, end).find(mark) {
            let at = start + at as u32;
            self.add(at, at + 1);
        }
    }

    /// Blanks these words between two offsets.
    pub(crate) fn add_words(&mut self, start: u32, end: u32, words: &[&str]) {
        let text = self.text(start, end);
        let is_part =
            |byte: Option<&u8>| byte.is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_');
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        for word in words {
            for (at, _) in text.match_indices(word) {
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                if !is_part(before) && !is_part(bytes.get(at + word.len())) {
                    found.push((start + at as u32, start + (at + word.len()) as u32));
                }
            }
        }
        found.into_iter().for_each(|(start, end)| self.add(start, end));
    }

    /// The text between two offsets; empty if the file is shorter.
    pub(crate) fn text(&self, start: u32, end: u32) -> &'a str {
        self.source.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The parts in ascending order, without those inside another one.
    pub(crate) fn sorted(&self) -> Vec<Part> {
        let mut parts = self.parts.clone();
        // Before a part that begins where a text is inserted, the text.
        parts.sort_by_key(|part| (part.start, part.start != part.end, std::cmp::Reverse(part.end)));
        let mut sorted: Vec<Part> = Vec::with_capacity(parts.len());
        for part in parts {
            match sorted.last_mut() {
                Some(last) if part.start < last.end => last.end = last.end.max(part.end),
                _ => sorted.push(part),
            }
        }
        sorted
    }
}
