//! The name of a module's content: the SHA-256 of its file, so that a log line says exactly which
//! build ran.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a module's bytes as they were loaded. Displays as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest that these 64 hex digits name, in either case.
    pub fn from_hex(text: &str) -> Option<Self> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        let byte = |[high, low]: &[u8; 2]| {
            let value = nibble(*high)? << 4 | nibble(*low)?;
            u8::try_from(value).ok()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        if rest.is_empty() { bytes?.try_into().ok().map(Self) } else { None }
    }

    /// The first 12 hex digits: enough for people to tell builds apart.
    pub fn short(&self) -> String {
        self.0.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sha_256_of_the_bytes() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.short(), "ba7816bf8f01");
    }

    #[test]
    fn hex_digits_name_a_digest_and_nothing_else_does() {
        let digest = Digest::of(b"abc");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex(&digest.to_string().to_uppercase()), Some(digest));
        let text = digest.to_string();
        for bad in ["", "ba78", &text[1..], &format!("{text}0"), &format!("{text}00")] {
            assert_eq!(Digest::from_hex(bad), None, "{bad}");
        }
        assert_eq!(Digest::from_hex(&text.replace('b', "g")), None);
        assert_eq!(Digest::from_hex(&text.replace("ba", "ä")), None);
    }
}
