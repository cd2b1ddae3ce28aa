//! The memory that the bodies of all requests may take together.
//!
//! A body counts from its first byte until its request is processed, after decompression. A body for
//! which no memory is left is refused, because waiting for memory with half a body could take as long
//! as the other clients like.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::problem::{BUSY, Problem};

/// Bytes for requests whose sender is known. More if `max_body` is so large that it would not fit twice.
const KNOWN_MAX: usize = 64 << 20;
/// Bytes for requests without a valid token. They cannot take the memory of the others.
const ANONYMOUS_MAX: usize = 4 << 20;
/// What a body counts at least: its head and the state of its decompression.
const BASE: usize = 16 << 10;
/// Number of bodies of `max_body` bytes that always fit.
const LARGEST_FIT: usize = 2;

/// The bytes in use.
#[derive(Default)]
pub(super) struct BodyMemory {
    known: Arc<AtomicUsize>,
    anonymous: Arc<AtomicUsize>,
}

/// The bytes of one body. Dropping it returns them.
pub(super) struct Share {
    used: Arc<AtomicUsize>,
    max: usize,
    held: usize,
}

impl BodyMemory {
    /// The share of a new request; `body_max` is the size of the largest body.
    ///
    /// # Errors
    /// If no memory is left.
    pub(super) fn share(&self, is_known: bool, body_max: usize) -> Result<Share, Problem> {
        let (used, max) = match is_known {
            true => (&self.known, KNOWN_MAX.max(body_max.saturating_mul(LARGEST_FIT))),
            false => (&self.anonymous, ANONYMOUS_MAX),
        };
        let mut share = Share { used: Arc::clone(used), max, held: 0 };
        share.hold(0)?;
        Ok(share)
    }
}

#[cfg(feature = "fuzzing")]
impl BodyMemory {
    /// The bytes that all bodies hold now.
    pub(super) fn held(&self) -> usize {
        self.known.load(Ordering::Relaxed) + self.anonymous.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Holds memory for this many bytes of the body, instead of what it held before.
    ///
    /// # Errors
    /// If so much is not left; it holds what it held before.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        let wanted = bytes.saturating_add(BASE);
        let (held, max) = (self.held, self.max);
        let change = |used: usize| {
            let after = used.saturating_sub(held).saturating_add(wanted);
            (wanted <= held || after <= max).then_some(after)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change).map_err(|_| busy())?;
        self.held = wanted;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.used.fetch_sub(self.held, Ordering::Relaxed);
    }
}

fn busy() -> Problem {
    let detail = "the bodies of the requests in progress take all the memory for bodies";
    Problem::new(BUSY, detail, "retry later, with fewer or smaller requests at a time")
        .retry_after(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_MAX: usize = 2 << 20;

    #[test]
    fn all_bodies_share_one_budget_and_return_what_they_held() {
        let memory = BodyMemory::default();
        let mut shares = Vec::new();
        while let Ok(mut share) = memory.share(true, BODY_MAX) {
            if share.hold(BODY_MAX).is_err() {
                break;
            }
            shares.push(share);
        }
        assert_eq!(shares.len(), KNOWN_MAX / (BODY_MAX + BASE));
        shares.truncate(1);
        assert_eq!(memory.known.load(Ordering::Relaxed), BODY_MAX + BASE);
        shares[0].hold(10).unwrap();
        assert_eq!(memory.known.load(Ordering::Relaxed), 10 + BASE);
        shares.clear();
        assert_eq!(memory.known.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_largest_bodies_fit_twice() {
        let memory = BodyMemory::default();
        let max = KNOWN_MAX;
        let mut shares: Vec<Share> = (0..2).map(|_| memory.share(true, max).unwrap()).collect();
        assert!(shares[0].hold(max - BASE).is_ok() && shares[1].hold(max - BASE).is_ok());
        assert!(memory.share(true, max).is_err());
    }

    #[test]
    fn anonymous_requests_take_no_memory_of_others() {
        let memory = BodyMemory::default();
        let anonymous: Vec<Share> =
            std::iter::from_fn(|| memory.share(false, BODY_MAX).ok()).collect();
        assert_eq!(anonymous.len(), ANONYMOUS_MAX / BASE);
        assert!(memory.share(true, BODY_MAX).is_ok());
    }
}
