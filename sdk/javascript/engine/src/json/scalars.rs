//! Texts and numbers of a JSON document.

use rquickjs::qjs::{self, JSValue};

use super::Parser;

impl<'a> Parser<'a> {
    /// A text without escapes.
    pub(super) fn plain(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
        if rest[length] != b'"' {
            self.at += length;
            return None;
        }
        self.at += length + 1;
        Some(&rest[..length])
    }

    pub(super) fn string(&mut self) -> Option<JSValue> {
        let start = self.at;
        if let Some(text) = self.plain() {
            return self.made_string(text);
        }
        self.at = start + 1;
        self.unescape()?;
        let text = std::mem::take(&mut self.unescaped);
        let value = self.made_string(text.as_bytes());
        self.unescaped = text;
        value
    }

    pub(super) fn made_string(&self, text: &[u8]) -> Option<JSValue> {
        // SAFETY: the range is `text`.
        let value =
            unsafe { qjs::JS_NewStringLen(self.ctx, text.as_ptr().cast(), text.len() as _) };
        Self::made(value)
    }

    /// Reads a text with escapes to its end.
    fn unescape(&mut self) -> Option<()> {
        self.unescaped.clear();
        loop {
            let rest = self.bytes.get(self.at..)?;
            let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
            self.unescaped.push_str(self.text.get(self.at..self.at + length)?);
            self.at += length + 1;
            match rest[length] {
                b'"' => return Some(()),
                b'\\' => {
                    let escaped = self.escaped()?;
                    self.unescaped.push(escaped);
                }
                _ => return None,
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                match char::from_u32(unit) {
                    Some(letter) => letter,
                    None => {
                        self.take(b'\\')?;
                        self.take(b'u')?;
                        let low = self.unit()?;
                        let pair = char::decode_utf16([unit as u16, low as u16]).next()?;
                        pair.ok()?
                    }
                }
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    }

    pub(super) fn number(&mut self) -> Option<JSValue> {
        let start = self.at;
        let _ = self.take(b'-');
        let first = self.at;
        self.digits()?;
        if self.bytes[first] == b'0' && self.at > first + 1 {
            return None;
        }
        let mut is_integer = true;
        if self.take(b'.').is_some() {
            is_integer = false;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        // Minus zero is not an integer.
        if is_integer && text.len() < 10 && text != "-0" {
            return text.parse().ok().map(|number: i32| qjs::JS_MKVAL(qjs::JS_TAG_INT, number));
        }
        text.parse().ok().map(qjs::JS_NewFloat64)
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}
