//! Escapes arbitrary text as the log, the CLI and `duebox top` do. The result has no character that a
//! terminal obeys or that changes the direction of text, keeps everything else, and escaping it again
//! changes nothing.
#![no_main]

use std::fmt::Write as _;

use duebox::observe::printable::{OneLine, json, lines, one_line};
use duebox_fuzz as _;
use libfuzzer_sys::fuzz_target;

/// The bytes of one escaped character, `\u{2028}`, for one of two bytes.
const GROWTH_MAX: usize = 8;

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (line, block) = (one_line(&text), lines(&text));
    for (safe, kept) in [(&line, ""), (&block, "\n\t")] {
        assert!(!safe.chars().any(|c| is_hostile(c) && !kept.contains(c)), "{safe:?}");
        assert!(safe.len() <= GROWTH_MAX * text.len());
        assert!(safe.chars().count() >= text.chars().count());
    }
    assert_eq!(one_line(&line), line);
    assert_eq!(lines(&block), block);
    if !text.chars().any(is_hostile) {
        assert_eq!(line, text);
    }
    let mut written = String::new();
    // A formatter may pass the text in any pieces.
    for piece in text.split_inclusive('a') {
        write!(OneLine(&mut written), "{piece}").expect("a string takes all");
    }
    assert_eq!(written, line);
    let value = serde_json::Value::from(text.as_ref());
    let escaped = json(&value.to_string());
    assert!(!escaped.chars().any(is_hostile), "{escaped:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).ok(), Some(value));
});

/// C0 and C1 control characters, separators of lines and paragraphs, and the characters of Unicode's
/// bidirectional algorithm.
fn is_hostile(c: char) -> bool {
    let code = u32::from(c);
    code < 0x20
        || (0x7f..0xa0).contains(&code)
        || [0x061c, 0x200e, 0x200f, 0x2028, 0x2029].contains(&code)
        || (0x202a..=0x202e).contains(&code)
        || (0x2066..=0x2069).contains(&code)
}
