//! The memory that the bodies of all requests may take together, or those of all responses.
//!
//! A body counts from its first byte until its request is processed, after decompression. A body for
//! which no memory is left is refused, because waiting for memory with half a body could take as long
//! as the other clients like. The requests of one token take at most half of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::access::Caller;
use super::problem::{BUSY, Problem};

/// Bytes for bodies of known senders. More if `max_body` is so large that it would not fit twice.
const KNOWN_MAX: usize = 64 << 20;
/// Bytes for those without a valid token. They cannot take the memory of the others.
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
    /// Of the known bytes, those of each token with bodies.
    of_tokens: Mutex<HashMap<String, Arc<AtomicUsize>>>,
}

/// The bytes of one body. Dropping it returns them.
pub(super) struct Share {
    all: Budget,
    /// What its token may take.
    of_token: Option<Budget>,
    held: usize,
}

/// Bytes in use, and how many may be.
struct Budget {
    used: Arc<AtomicUsize>,
    max: usize,
}

impl BodyMemory {
    /// The share of a new request; `body_max` is the size of the largest body.
    ///
    /// # Errors
    /// If no memory is left.
    pub(super) fn share(&self, caller: &Caller, body_max: usize) -> Result<Share, Problem> {
        let (used, max) = match caller.is_known() {
            true => (&self.known, KNOWN_MAX.max(body_max.saturating_mul(LARGEST_FIT))),
            false => (&self.anonymous, ANONYMOUS_MAX),
        };
        let of_token = caller.token_name().map(|name| Budget {
            used: self.used_by(name),
            max: (max / LARGEST_FIT).saturating_add(BASE),
        });
        let all = Budget { used: Arc::clone(used), max };
        let mut share = Share { all, of_token, held: 0 };
        share.hold(0)?;
        Ok(share)
    }

    /// The bytes of the requests of a token.
    fn used_by(&self, token: &str) -> Arc<AtomicUsize> {
        let mut of_tokens = self.of_tokens.lock();
        if let Some(used) = of_tokens.get(token) {
            return Arc::clone(used);
        }
        of_tokens.retain(|_, used| Arc::strong_count(used) > 1);
        Arc::clone(of_tokens.entry(token.to_owned()).or_default())
    }
}

#[cfg(any(test, feature = "fuzzing"))]
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
        if let Some(of_token) = &self.of_token {
            of_token.change(self.held, wanted)?;
        }
        if let Err(busy) = self.all.change(self.held, wanted) {
            if let Some(of_token) = &self.of_token {
                of_token.release(wanted - self.held);
            }
            return Err(busy);
        }
        self.held = wanted;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for budget in [Some(&self.all), self.of_token.as_ref()].into_iter().flatten() {
            budget.release(self.held);
        }
    }
}

impl Budget {
    /// Holds `wanted` bytes in place of `held`. Fewer are never refused.
    fn change(&self, held: usize, wanted: usize) -> Result<(), Problem> {
        let change = |used: usize| {
            let after = used.saturating_sub(held).saturating_add(wanted);
            (wanted <= held || after <= self.max).then_some(after)
        };
        let changed = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.map(|_| ()).map_err(|_| busy())
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn busy() -> Problem {
    let detail =
        "requests in progress, or responses that are not read, take all the memory for them";
    let remedy = "retry later; read each response, and send fewer or smaller requests at a time";
    Problem::new(BUSY, detail, remedy).retry_after(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_MAX: usize = 2 << 20;

    #[test]
    fn all_bodies_share_one_budget_and_return_what_they_held() {
        let memory = BodyMemory::default();
        let mut shares = Vec::new();
        while let Ok(mut share) = memory.share(&Caller::Open, BODY_MAX) {
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
        let share = || memory.share(&Caller::Open, max);
        let mut shares: Vec<Share> = (0..2).map(|_| share().unwrap()).collect();
        assert!(shares[0].hold(max - BASE).is_ok() && shares[1].hold(max - BASE).is_ok());
        assert!(share().is_err());
    }

    #[test]
    fn anonymous_requests_take_no_memory_of_others() {
        let memory = BodyMemory::default();
        let anonymous: Vec<Share> =
            std::iter::from_fn(|| memory.share(&Caller::Anonymous, BODY_MAX).ok()).collect();
        assert_eq!(anonymous.len(), ANONYMOUS_MAX / BASE);
        assert!(memory.share(&Caller::Open, BODY_MAX).is_ok());
    }

    #[test]
    fn one_token_leaves_half_of_the_memory_to_the_others() {
        let memory = BodyMemory::default();
        let (greedy, modest) = (Caller::with_token("greedy"), Caller::with_token("modest"));
        let taken: Vec<Share> =
            std::iter::from_fn(|| memory.share(&greedy, BODY_MAX).ok()).collect();
        assert_eq!(taken.len(), KNOWN_MAX / BASE / 2 + 1);
        let mut other = memory.share(&modest, BODY_MAX).unwrap();
        other.hold(KNOWN_MAX / 2 - 3 * BASE).unwrap();
        assert!(other.hold(KNOWN_MAX / 2 - BASE).is_err(), "the rest is less than half");
        drop((taken, other));
        assert_eq!(memory.known.load(Ordering::Relaxed), 0);
        assert!(memory.share(&greedy, BODY_MAX).is_ok());
        assert!(memory.of_tokens.lock().values().all(|used| used.load(Ordering::Relaxed) == 0));
    }
}
