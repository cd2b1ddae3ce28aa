//! Parses the payload of a job. QuickJS' own parser takes three times as long: it makes a text of each name, and reads
//! each number with `strtod`.
//!
//! Invariant: what is not plainly valid JSON is left to QuickJS' parser, which has the message of each error. So are
//! texts with lone surrogates and deep nesting.

mod scalars;

use rquickjs::qjs::{self, JSAtom, JSContext, JSValue};
use rquickjs::{Ctx, Result, Value};

/// The deepest nesting: each level takes some of the engine's own stack.
const DEPTH_MAX: usize = 100;
/// How many names are compared with, so that the same name is looked up once.
const NAMES_MAX: usize = 64;
/// The longest text that is kept to compare the next value of the same name with it, in bytes.
const SAME_MAX: usize = 32;

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
        filled: Vec::new(),
        shapes: Vec::new(),
        unescaped: String::new(),
    };
    let parsed = parser.document();
    parser.end();
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
    names: Vec<Name<'a>>,
    /// The name that probably follows: objects in a list have the same ones.
    next_name: usize,
    /// Elements of the arrays that are not complete yet.
    elements: Vec<JSValue>,
    /// The names of the objects that are not complete yet.
    filled: Vec<JSAtom>,
    /// Objects with the first names of those in a list. While one lives, QuickJS finds its shape for the next object
    /// in the list, and makes none.
    shapes: Vec<JSValue>,
    unescaped: String,
}

/// A name of properties, which the parser frees.
struct Name<'a> {
    text: &'a [u8],
    atom: JSAtom,
    /// Its last value, if that is a short text: the next one is often the same.
    last: Option<(&'a [u8], JSValue)>,
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

    /// Frees what belongs to the parser.
    fn end(&mut self) {
        for Name { atom, last, .. } in std::mem::take(&mut self.names) {
            // SAFETY: the atom belongs to this parser.
            unsafe { qjs::JS_FreeAtom(self.ctx, atom) };
            last.into_iter().for_each(|(_, value)| self.free(value));
        }
        std::mem::take(&mut self.shapes).into_iter().for_each(|object| self.free(object));
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

    fn new_object(&self) -> Option<JSValue> {
        // SAFETY: the context is that of the caller.
        Self::made(unsafe { qjs::JS_NewObject(self.ctx) })
    }

    /// Adds a property. The object must be alive. Takes the value.
    fn define(&self, object: JSValue, name: JSAtom, value: JSValue) -> Option<()> {
        let flags = qjs::JS_PROP_C_W_E as i32;
        // SAFETY: the object is alive, and the call takes the value.
        let added = unsafe { qjs::JS_DefinePropertyValue(self.ctx, object, name, value, flags) };
        (added >= 0).then_some(())
    }

    fn object(&mut self, depth: usize) -> Option<JSValue> {
        let first = self.filled.len();
        let object = self.named_object(depth);
        self.filled.truncate(first);
        object
    }

    /// The first object of a list. The next ones probably have the same names.
    fn first_object(&mut self, depth: usize) -> Option<JSValue> {
        let first = self.filled.len();
        let object = self.named_object(depth)?;
        self.skip_blanks();
        if self.peek() == Some(b',') && self.keep_shapes(first).is_none() {
            self.free(object);
            return None;
        }
        self.filled.truncate(first);
        Some(object)
    }

    /// Keeps the shapes of the object whose names begin at `first`.
    fn keep_shapes(&mut self, first: usize) -> Option<()> {
        let names = self.filled.get(first..).unwrap_or_default();
        if self.shapes.len() + names.len() > NAMES_MAX {
            return Some(());
        }
        for count in 0..names.len() {
            let object = self.new_object()?;
            self.shapes.push(object);
            for name in names.iter().take(count) {
                self.define(object, *name, qjs::JS_NULL)?;
            }
        }
        Some(())
    }

    /// An object. Its names are left in `filled`.
    fn named_object(&mut self, depth: usize) -> Option<JSValue> {
        self.at += 1;
        let object = self.new_object()?;
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
            let atom = self.names.get(name)?.atom;
            self.skip_blanks();
            self.take(b':')?;
            self.skip_blanks();
            let value = match self.peek() {
                Some(b'"') => self.string_of(name)?,
                _ => self.value(depth)?,
            };
            self.define(object, atom, value)?;
            self.filled.push(atom);
            self.skip_blanks();
            if self.take(b'}').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }

    /// The index of the name of a property.
    fn name(&mut self) -> Option<usize> {
        if let Some(length) = self.next_is_named() {
            self.at += length;
            self.next_name += 1;
            return Some(self.next_name - 1);
        }
        let text = self.plain()?;
        let known = self.names.iter().take(NAMES_MAX).position(|known| known.text == text);
        let name = match known {
            Some(name) => name,
            None => self.new_name(text)?,
        };
        self.next_name = name + 1;
        Some(name)
    }

    /// The length of the name that probably follows, with its quotes, if it does.
    fn next_is_named(&self) -> Option<usize> {
        let text = self.names.get(self.next_name)?.text;
        let rest = self.bytes.get(self.at..)?.strip_prefix(b"\"")?.strip_prefix(text)?;
        rest.starts_with(b"\"").then_some(text.len() + 2)
    }

    fn new_name(&mut self, text: &'a [u8]) -> Option<usize> {
        // SAFETY: the range is `text`.
        let atom = unsafe { qjs::JS_NewAtomLen(self.ctx, text.as_ptr().cast(), text.len() as _) };
        if atom == qjs::JS_ATOM_NULL {
            return None;
        }
        self.names.push(Name { text, atom, last: None });
        Some(self.names.len() - 1)
    }

    /// The text that is the value of a name.
    fn string_of(&mut self, name: usize) -> Option<JSValue> {
        let start = self.at;
        let Some(text) = self.plain().filter(|text| text.len() <= SAME_MAX) else {
            self.at = start;
            return self.string();
        };
        let last = self.names.get(name)?.last;
        if let Some((same, value)) = last
            && same == text
        {
            // SAFETY: the value is alive.
            return Some(unsafe { qjs::JS_DupValue(self.ctx, value) });
        }
        let value = self.made_string(text)?;
        // SAFETY: the value is alive.
        let kept = unsafe { qjs::JS_DupValue(self.ctx, value) };
        self.names.get_mut(name)?.last = Some((text, kept));
        last.into_iter().for_each(|(_, old)| self.free(old));
        Some(value)
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
        let mut is_first = true;
        loop {
            self.skip_blanks();
            let value = match self.peek() {
                Some(b'{') if is_first => self.first_object(depth.checked_sub(1)?)?,
                _ => self.value(depth)?,
            };
            is_first = false;
            self.elements.push(value);
            self.skip_blanks();
            if self.take(b']').is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
    }
}
