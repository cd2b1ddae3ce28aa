//! A hasher for keys that no outsider chooses. A life hashes some hundred kilobytes.

use std::hash::{BuildHasherDefault, Hasher};

/// The state of a map with this hasher.
pub(super) type FastState = BuildHasherDefault<FastHasher>;

/// Multiplies and rotates eight bytes at a time.
#[derive(Debug, Default, Clone)]
pub(super) struct FastHasher(u64);

impl FastHasher {
    fn add(&mut self, word: u64) {
        // 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        // The map takes its places from the low bits, and the product is best in the high ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }
}
