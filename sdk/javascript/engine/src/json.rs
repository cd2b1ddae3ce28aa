//! Parses the payload of a job. QuickJS' own parser takes three times as long: it makes a text of each name, and reads
//! each number with `strtod`.
//!
//! Invariant: what is not plainly valid JSON is left to QuickJS' parser, which has the message of each error. So are
//! texts with lone surrogates and deep nesting.

use rquickjs::qjs::{self, JSAtom, JSContext, JSValue};
use rquickjs::{Ctx, Result, Value};

/// The deepest nesting: each level takes some of the engine's own stack.
const DEPTH_MAX: usize = 100;
/// How many names are compared with, so that the same name is looked up once.
const NAMES_MAX: usize = 64;

/// The value of a JSON text.
pub(crate) fn parse<'js>(ctx: &Ctx<'js>, text: String) -> Result<Value<'js>> {
    let mut parser = Parser {
        ctx: ctx.as_raw().as_ptr(),
        text: &text,
        bytes: text.as_bytes(),
        at: 0,
        names: Vec::new(),
        next_name: 0,
        elements: Vec::new(),
        unescaped: String::new(),
    };
    let parsed = parser.document();
    for (_, atom) in std::mem::take(&mut parser.names) {
        // SAFETY: the atom belongs to this parser.
        unsafe { qjs::JS_FreeAtom(parser.ctx, atom) };
    }
    match parsed {
        // SAFETY: the value belongs to this context, and to nothing else.
        Some(value) => Ok(unsafe { Value::from_raw(ctx.clone(), value) }),
        None => {
            // The engine may have had no memory left.
            drop(ctx.catch());
            ctx.json_parse(text)
        }
    }
}

struct Parser<'a> {
    ctx: *mut JSContext,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// The atoms of names, which this parser frees.
    names: Vec<(&'a [u8], JSAtom)>,
    /// The name that probably follows: objects in a list have the same ones.
    next_name: usize,
    /// Elements of the arrays that are not complete yet.
    elements: Vec<JSValue>,
    unescaped: String,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Option<JSValue> {
        let value = self.value(DEPTH_MAX)?;
        self.skip_blanks();
        if self.at < self.bytes.len() {
            self.free(value);
            return None;
        }
        Some(value)
    }

    fn free(&self, value: JSValue) {
        // SAFETY: the value belongs to this parser.
        unsafe { qjs::JS_FreeValue(self.ctx, value) };
    }

    /// A value that the engine has made; `None` if it could not.
    fn made(value: JSValue) -> Option<JSValue> {
        // SAFETY: this looks at the value's tag only.
        if unsafe { qjs::JS_IsException(value) } { None } else { Some(value) }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next.then_some(())
    }

    fn word(&mut self, word: &str, value: JSValue) -> Option<JSValue> {
        let rest = self.bytes.get(self.at..)?;
        self.at += word.len();
        rest.starts_with(word.as_bytes()).then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<JSValue> {
        let depth = depth.checked_sub(1)?;
        self.skip_blanks();
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b'"' => self.string(),
            b't' => self.word("true", qjs::JS_TRUE),
            b'f' => self.word("false", qjs::JS_FALSE),
            b'n' => self.word("null", qjs::JS_NULL),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<JSValue> {
        self.at += 1;
        // SAFETY: the context is that of the caller.
        let object = Self::made(unsafe { qjs::JS_NewObject(self.ctx) })?;
        let filled = self.fill(object, depth);
        if filled.is_none() {
            self.free(object);
        }
        filled.map(|()| object)
    }

    fn fill(&mut self, object: JSValue, depth: usize) -> Option<()> {
        self.skip_blanks();
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            self.skip_blanks();
            let name = self.name()?;
            self.skip_blanks();
            self.take(b':')?;
            let value = self.value(depth)?;
            let flags = qjs::JS_PROP_C_W_E as i32;
            // SAFETY: the object is alive, and the call takes the value.
            if unsafe { qjs::JS_DefinePropertyValue(self.ctx, object, name, value, flags) } < 0 {
                return None;
            }
            self.skip_blanks();
            if self.take(b'}').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    /// The name of a property. The parser frees it.
    fn name(&mut self) -> Option<JSAtom> {
        let name = self.plain()?;
        if let Some((known, atom)) = self.names.get(self.next_name)
            && *known == name
        {
            self.next_name += 1;
            return Some(*atom);
        }
        let known = self.names.iter().take(NAMES_MAX).position(|(known, _)| *known == name);
        if let Some(at) = known {
            self.next_name = at + 1;
            return Some(self.names[at].1);
        }
        // SAFETY: the range is `name`.
        let atom = unsafe { qjs::JS_NewAtomLen(self.ctx, name.as_ptr().cast(), name.len() as _) };
        if atom == qjs::JS_ATOM_NULL {
            return None;
        }
        self.names.push((name, atom));
        self.next_name = self.names.len();
        Some(atom)
    }

    fn array(&mut self, depth: usize) -> Option<JSValue> {
        self.at += 1;
        let first = self.elements.len();
        if self.list(depth).is_none() {
            while self.elements.len() > first {
                let element = self.elements.pop()?;
                self.free(element);
            }
            return None;
        }
        let count = self.elements.len() - first;
        // SAFETY: the range are the elements, which the call takes.
        let array = unsafe {
            qjs::JS_NewArrayFrom(self.ctx, count as i32, self.elements.as_ptr().add(first))
        };
        self.elements.truncate(first);
        Self::made(array)
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        self.skip_blanks();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            let value = self.value(depth)?;
            self.elements.push(value);
            self.skip_blanks();
            if self.take(b']').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    /// A text without escapes.
    fn plain(&mut self) -> Option<&'a [u8]> {
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

    fn string(&mut self) -> Option<JSValue> {
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

    fn made_string(&self, text: &[u8]) -> Option<JSValue> {
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

    fn number(&mut self) -> Option<JSValue> {
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
