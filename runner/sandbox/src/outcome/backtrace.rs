//! The backtrace of a guest: its calls, innermost first, with the function names of the module.
//!
//! The guest chooses these names, so the text is bounded and contains no control characters.

use std::fmt::{self, Write};

use rustc_demangle::try_demangle;
use wasmtime::{Error, FrameInfo, WasmBacktrace};

/// The longest backtrace, in bytes.
const LEN_MAX: usize = 8 << 10;
/// Marks where a text was cut.
const CUT: char = '…';

/// The message of an error, and one line for each call that led to it. `None` if no guest was running.
pub(super) fn format(message: &str, error: &Error) -> Option<String> {
    let frames = frames(error)?;
    Some(bounded(LEN_MAX, |text| {
        Printable(text).write_str(message)?;
        for (number, frame) in frames.iter().enumerate() {
            write!(text, "\n  {number}: ")?;
            write_name(text, frame)?;
            if let Some(offset) = frame.module_offset() {
                write!(text, " at {offset:#x}")?;
            }
        }
        Ok(())
    }))
}

/// The name of the innermost function, at most `max` bytes. `None` if no guest was running.
pub(super) fn innermost(error: &Error, max: usize) -> Option<String> {
    let frame = frames(error)?.first()?;
    Some(bounded(max, |text| write_name(text, frame)))
}

fn frames(error: &Error) -> Option<&[FrameInfo]> {
    let frames = error.downcast_ref::<WasmBacktrace>()?.frames();
    (!frames.is_empty()).then_some(frames)
}

fn write_name(text: &mut Bounded, frame: &FrameInfo) -> fmt::Result {
    let symbol = frame.symbols().first().and_then(|symbol| symbol.name());
    match symbol.or(frame.func_name()) {
        Some(name) => write_readable(text, name),
        None => write!(text, "function {}", frame.func_index()),
    }
}

/// Writes a function name as it is in the source: Rust's linker leaves names mangled.
fn write_readable(text: &mut Bounded, name: &str) -> fmt::Result {
    match try_demangle(name) {
        Ok(demangled) => write!(Printable(text), "{demangled:#}"),
        Err(_) => Printable(text).write_str(name),
    }
}

/// A text of at most `max` bytes. A longer one is cut.
fn bounded(max: usize, write: impl FnOnce(&mut Bounded) -> fmt::Result) -> String {
    let mut bounded = Bounded { text: String::new(), max: max.saturating_sub(CUT.len_utf8()) };
    if write(&mut bounded).is_err() {
        bounded.text.push(CUT);
    }
    bounded.text
}

/// Accepts text until it is full. It then returns an error, which ends the writing.
struct Bounded {
    text: String,
    max: usize,
}

impl Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let fits = more.floor_char_boundary(self.max - self.text.len());
        self.text.push_str(&more[..fits]);
        if fits == more.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Removes control characters: a name could forge a line, or control a terminal.
struct Printable<'a>(&'a mut Bounded);

impl Write for Printable<'_> {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        more.split(char::is_control).try_for_each(|part| self.0.write_str(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, max: usize) -> String {
        bounded(max, |text| write_readable(text, name))
    }

    #[test]
    fn names_are_shown_as_in_the_source() {
        assert_eq!(shown("handle", 100), "handle");
        assert_eq!(shown("_ZN11order_close5close17h0123456789abcdefE", 100), "order_close::close");
        assert_eq!(shown("_RNvCs1234_7mycrate3foo", 100), "mycrate::foo");
        assert_eq!(shown("main.(*Shop).Close", 100), "main.(*Shop).Close");
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        assert_eq!(shown("a\n  1: handle\x1b[2J", 100), "a  1: handle[2J");
        assert_eq!(shown(&"ä".repeat(100), 10), "äää…");
        assert_eq!(shown("0123456", 10), "0123456");
        assert_eq!(shown("01234567", 10), "0123456…");
    }
}
