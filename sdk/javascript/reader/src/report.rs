//! What is found in a file, as lines for the daemon:
//!
//! ```text
//! error OFFSET MESSAGE       the file is refused; nothing else follows
//! script                     it has neither import nor export
//! import OFFSET SPECIFIER    a module that it imports, once for each specifier
//! - GAP LENGTH FIRST         bytes to replace by blanks: how many after the part before, and how long. FIRST
//!                            replaces the first one, if it is written
//! ```
//!
//! Offsets are in bytes. A specifier is as JSON would escape a line break: none has one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;

use crate::types::{Found, Refusal};

/// Reads a file: its language and its source.
pub fn read(payload: &[u8]) -> String {
    let Some((language, source)) = payload.split_first() else { return error(0, "it is empty") };
    let Ok(source) = std::str::from_utf8(source) else { return error(0, "it is not UTF-8") };
    let kind = match language {
        b't' => SourceType::ts().with_module(true),
        _ => SourceType::mjs(),
    };
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, kind).parse();
    if let Some(problem) = parsed.diagnostics.errors().next() {
        let offset = problem.labels.first().map_or(0, |label| label.offset());
        return error(offset, &problem.message);
    }
    match Found::of(&parsed.program, source, *language == b't') {
        Ok(found) => write(&found, parsed.module_record.has_module_syntax),
        Err(Refusal { offset, text }) => error(offset, &text),
    }
}

fn error(offset: u32, message: &str) -> String {
    format!("error {offset} {}\n", message.replace('\n', " "))
}

fn write(found: &Found<'_>, is_module: bool) -> String {
    let mut lines = String::new();
    if !is_module {
        lines.push_str("script\n");
    }
    let mut written = BTreeSet::new();
    for (specifier, offset) in &found.imports {
        if written.insert(specifier) && !specifier.contains('\n') {
            // Writing to a String does not fail.
            let _ = writeln!(lines, "import {offset} {specifier}");
        }
    }
    // As short as possible: a result has at most 64 KiB.
    let mut at = 0;
    for (start, end, first) in found.blanks.sorted() {
        let (gap, length) = (start - at, end - start);
        let _ = match first {
            b' ' => writeln!(lines, "- {gap} {length}"),
            first => writeln!(lines, "- {gap} {length} {}", char::from(first)),
        };
        at = end;
    }
    lines
}
