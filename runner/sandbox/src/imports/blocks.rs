//! Blocks (docs/reference/abi.md, "Rules"): lines of `name: value\n`, at most 16 KiB together.
//!
//! A written block is always well-formed. A block that is read is well-formed as a whole, or refused as a
//! whole.

use std::collections::BTreeMap;

/// The longest block, in bytes.
pub(crate) const LEN_MAX: usize = 16 << 10;
/// The longest name, in bytes.
const NAME_MAX: usize = 64;

/// Writes pairs as a block. A pair that is not allowed in a block, or does not fit, is omitted.
pub(crate) fn write(pairs: &BTreeMap<String, String>) -> String {
    let mut block = String::new();
    for (name, value) in pairs {
        let line = name.len() + value.len() + ": \n".len();
        if !can_hold(name, value) || block.len() + line > LEN_MAX {
            continue;
        }
        block.push_str(name);
        block.push_str(": ");
        block.push_str(value);
        block.push('\n');
    }
    block
}

/// The pairs of a block, in its order. `None` if the block is malformed. The caller checks its length.
pub(crate) fn read(bytes: &[u8]) -> Option<Vec<(&str, &str)>> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.split_inclusive('\n').map(pair).collect()
}

/// Whether a pair is allowed in a block.
pub(crate) fn can_hold(name: &str, value: &str) -> bool {
    is_name(name) && is_value(value)
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_suffix('\n')?.split_once(": ")?;
    can_hold(name, value).then_some((name, value))
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

fn is_value(value: &str) -> bool {
    !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_block_is_read_back(
            given in proptest::collection::btree_map("[a-z0-9._-]{0,66}|.{0,9}", ".{0,40}|\\PC{0,40}", 0..20)
        ) {
            let block = write(&given);
            let kept: Vec<_> = given
                .iter()
                .filter(|(name, value)| is_name(name) && is_value(value))
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            prop_assert_eq!(read(block.as_bytes()), Some(kept));
        }

        #[test]
        fn a_block_that_is_read_is_well_formed(bytes in "([a-c]: [^\n]{0,3}\n|.|\n){0,8}") {
            let Some(pairs) = read(bytes.as_bytes()) else { return Ok(()) };
            let again: String = pairs.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            prop_assert_eq!(again, bytes);
        }
    }

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_block_has_a_line_for_each_pair() {
        let block = write(&pairs(&[("trace-id", "ab: 1"), ("a_b.c", "")]));
        assert_eq!(block, "a_b.c: \ntrace-id: ab: 1\n");
        assert_eq!(read(block.as_bytes()), Some(vec![("a_b.c", ""), ("trace-id", "ab: 1")]));
        assert_eq!((write(&pairs(&[])).as_str(), read(b"")), ("", Some(vec![])));
    }

    #[test]
    fn a_pair_that_would_break_the_block_is_omitted() {
        let long = "x".repeat(LEN_MAX - "a: \nc: short\n".len());
        let block = write(&pairs(&[
            ("a", &long),
            ("b", "does not fit"),
            ("c", "short"),
            ("Upper", "1"),
            ("", "1"),
            ("line", "one\ntwo: 2"),
            (&"n".repeat(65), "1"),
        ]));
        assert_eq!(block, format!("a: {long}\nc: short\n"));
        assert_eq!(block.len(), LEN_MAX);
    }

    #[test]
    fn a_malformed_block_is_refused_as_a_whole() {
        for bytes in [
            &b"a: 1"[..],
            b"a: 1\nb: 2",
            b"\n",
            b"a: 1\n\nb: 2\n",
            b"a:1\n",
            b"a\n",
            b": 1\n",
            b"A: 1\n",
            b"a b: 1\n",
            b"a: 1\r\n",
            b"a: \t\n",
            b"a: \0\n",
            b"a: \xff\n",
            "\u{e4}: 1\n".as_bytes(),
            "a: \u{85}\n".as_bytes(),
            format!("{}: 1\n", "n".repeat(65)).as_bytes(),
        ] {
            assert_eq!(read(bytes), None, "{:?}", String::from_utf8_lossy(bytes));
        }
        let name = "n".repeat(64);
        assert_eq!(read(format!("{name}: 1\n").as_bytes()), Some(vec![(name.as_str(), "1")]));
    }
}
