//! What is found in a file, as lines for the daemon:
//!
//! ```text
//! error OFFSET MESSAGE       the file is refused; nothing else follows
//! script                     it has neither import nor export
//! import OFFSET SPECIFIER    a module that it imports, once for each specifier
//! require OFFSET SPECIFIER   a module that a CommonJS module requires, once for each specifier
//! - GAP LENGTH TEXT          bytes to replace by blanks: how many after the part before, and how long. TEXT
//!                            replaces the first ones, if it is written, and may be longer than they are
//! ```
//!
//! Offsets are in bytes. A specifier is as JSON would escape a line break: none has one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;

use crate::blank::Part;
use crate::types::{Found, Refusal};

/// Reads a file: its language and its source.
pub fn read(payload: &[u8]) -> String {
    let Some((language, source)) = payload.split_first() else { return error(0, "it is empty") };
    let Ok(source) = std::str::from_utf8(source) else { return error(0, "it is not UTF-8") };
    let kind = match language {
        b't' => SourceType::ts().with_module(true),
        b'c' => SourceType::cjs(),
        b'p' => SourceType::unambiguous(),
        _ => SourceType::mjs(),
    };
    let allocator = Allocator::default();
    let mut parsed = Parser::new(&allocator, source, kind).parse();
    if *language == b'p'
        && !parsed.module_record.has_module_syntax
        && parsed.diagnostics.has_errors()
    {
        parsed = Parser::new(&allocator, source, SourceType::cjs()).parse();
    }
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
    write_specifiers(&mut lines, "import", &found.imports);
    if !is_module {
        write_specifiers(&mut lines, "require", &found.requires);
    }
    // As short as possible: a result has at most 64 KiB.
    let mut at = 0;
    for Part { start, end, text } in found.blanks.sorted() {
        let (gap, length) = (start - at, end - start);
        // Writing to a String does not fail.
        let _ = match text.as_ref() {
            "" => writeln!(lines, "- {gap} {length}"),
            text => writeln!(lines, "- {gap} {length} {text}"),
        };
        at = end;
    }
    lines
}

fn write_specifiers(lines: &mut String, word: &str, specifiers: &[(String, u32)]) {
    let mut written = BTreeSet::new();
    for (specifier, offset) in specifiers {
        if written.insert(specifier) && !specifier.contains('\n') {
            // Writing to a String does not fail.
            let _ = writeln!(lines, "{word} {offset} {specifier}");
        }
    }
}
