//! Texts of a guest, bounded and made valid UTF-8.

use std::borrow::Cow;

/// The longest reason of a failure that is kept, in bytes.
pub(crate) const REASON_MAX: usize = 4 << 10;

/// The text within the first `max` bytes, cut between characters. Invalid UTF-8 is replaced.
pub(crate) fn lossy(bytes: &[u8], max: usize) -> Cow<'_, str> {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(max)]);
    // The cut may have split a character. The replacement of its first half is not part of the text.
    if bytes.len() > max && text.ends_with('\u{fffd}') {
        let whole = text.trim_end_matches('\u{fffd}').len();
        text.to_mut().truncate(whole);
    }
    if text.len() > max {
        let end = text.floor_char_boundary(max);
        text.to_mut().truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(lossy(b"abc", 10), "abc");
        assert_eq!(lossy("aä".as_bytes(), 2), "a");
        assert_eq!(lossy("aä".as_bytes(), 3), "aä");
        assert_eq!(lossy("a😀b".as_bytes(), 4), "a");
        assert_eq!(lossy(b"a\xffb", 10), "a\u{fffd}b");
        assert!(lossy(&[0xff; 10], 10).len() <= 10);
    }
}
