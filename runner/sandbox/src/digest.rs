//! The digest of a module's file, which identifies the build in every log line.

use std::fmt;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a module's file. Displays as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 hexadecimal digits in either case. `None` if the text is anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// The first 12 hexadecimal digits, which are enough to distinguish builds.
    pub fn short(&self) -> String {
        HEXLOWER.encode(&self.0[..6])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", HEXLOWER.encode_display(&self.0))
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
    fn the_digest_is_the_sha_256_of_the_bytes() {
        let digest = Digest::of(b"abc");
        assert_eq!(
            digest.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(digest.short(), "ba7816bf8f01");
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_digest() {
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
