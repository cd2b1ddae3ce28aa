//! The random bytes of a snapshot: the same ones for the same seed, in every build and on every machine.

use chacha20::ChaCha20Rng;
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _};

use crate::imports::intercept::{HostAnswer, HostRequest, Interceptor};
use crate::snapshot_seed::SnapshotSeed;

/// Draws random bytes from a seed. The host answers all other calls.
pub(super) struct SeededRandom(Mutex<ChaCha20Rng>);

impl SeededRandom {
    pub(super) fn new(seed: SnapshotSeed) -> Self {
        Self(Mutex::new(ChaCha20Rng::from_seed(seed.bytes())))
    }
}

impl Interceptor for SeededRandom {
    fn answer(&self, _: &HostRequest<'_>) -> Option<HostAnswer> {
        None
    }

    fn answered(&self, _: &HostRequest<'_>, _: &HostAnswer) {}

    fn fill_random(&self, target: &mut [u8]) -> bool {
        self.0.lock().fill_bytes(target);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_in_every_build() {
        let drawn = |seed| {
            let (random, mut bytes) = (SeededRandom::new(SnapshotSeed::of_bytes(seed)), [0; 8]);
            // A call of another length moves the stream, as it did when the snapshot was taken.
            assert!(random.fill_random(&mut [0; 3]) && random.fill_random(&mut bytes));
            bytes
        };
        // ChaCha20 with the key 0, from its second word on (RFC 8439, A.1, test vector 1).
        assert_eq!(drawn([0; 32]), [0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5]);
        assert_ne!(drawn([1; 32]), drawn([0; 32]));
    }
}
