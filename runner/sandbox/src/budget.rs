//! The memory of all guests together. A guest that starts waits until there is room for it; one that
//! grows beyond what is left ends as a host fault and spends no attempt: it did nothing that it may not,
//! and waiting with what it holds already could make all wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// What the guests of one sandbox hold, and what they may hold together.
#[derive(Debug)]
pub(crate) struct Budget {
    max: AtomicUsize,
    held: AtomicUsize,
    /// Guests that wait for room; without any, giving back costs no more than a subtraction.
    waiting: AtomicUsize,
    returned: Notify,
}

/// The budget has no room. It ends the guest that wanted it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the memory of all guests together is spent: {wanted} bytes more would be over the {max} of runner.memory"
)]
pub(crate) struct Spent {
    wanted: usize,
    max: usize,
}

impl Default for Budget {
    /// Without an end.
    fn default() -> Self {
        let (held, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { max: AtomicUsize::new(usize::MAX), held, waiting, returned: Notify::new() }
    }
}

impl Budget {
    /// From now on, all together have so many bytes. Who holds more keeps it.
    pub(crate) fn limit(&self, max: usize) {
        self.max.store(max, Ordering::SeqCst);
        self.returned.notify_waiters();
    }

    /// Takes so many bytes, or none.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Spent> {
        let max = self.max.load(Ordering::SeqCst);
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= max);
        match self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Spent { wanted: bytes, max }),
        }
    }

    /// Gives back so many bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.returned.notify_waiters();
        }
    }

    /// Waits until something was given back since `there_is_room` said no. It may return for nothing.
    pub(crate) async fn returned(&self, there_is_room: impl Fn(&Self) -> bool) {
        let _waiting = Waiting::new(&self.waiting);
        let mut returned = std::pin::pin!(self.returned.notified());
        returned.as_mut().enable();
        if !there_is_room(self) {
            returned.await;
        }
    }

    /// Bytes that all guests may hold.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }

    /// Bytes that all guests hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Whether so many bytes more could be taken now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let max = self.max.load(Ordering::SeqCst);
        self.held().checked_add(bytes).is_some_and(|sum| sum <= max)
    }
}

/// What one thing beside a guest's memory holds of the budget, such as a body on its way. It goes back with
/// the share.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// A share of nothing yet.
    pub(crate) fn of(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Another share of the same budget, of nothing yet.
    pub(crate) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.budget))
    }

    /// Takes so many bytes more, or none.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Spent> {
        self.budget.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes);
        }
    }
}

/// One who waits, also if it is given up meanwhile.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_what_it_has_and_no_more() {
        let budget = Budget::default();
        budget.take(1 << 40).unwrap();
        budget.give_back(1 << 40);
        budget.limit(100);
        budget.take(60).unwrap();
        assert_eq!(budget.take(41).unwrap_err().wanted, 41);
        assert!(budget.take(usize::MAX).is_err());
        budget.take(40).unwrap();
        budget.give_back(100);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_share_goes_back_whole() {
        let budget = Arc::new(Budget::default());
        budget.limit(10);
        let mut share = Share::of(Arc::clone(&budget));
        share.grow(4).unwrap();
        share.grow(5).unwrap();
        assert!(share.grow(2).is_err());
        assert!(share.another().grow(1).is_ok());
        assert_eq!(budget.held(), 9);
        drop(share);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_what_is_given_back() {
        let budget = Arc::new(Budget::default());
        budget.limit(10);
        budget.take(10).unwrap();
        let waiter = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move {
                while budget.take(5).is_err() {
                    budget.returned(|budget| budget.has_room(5)).await;
                }
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(budget.waiting.load(Ordering::SeqCst), 1);
        budget.give_back(10);
        waiter.await.unwrap();
        assert_eq!((budget.held(), budget.waiting.load(Ordering::SeqCst)), (5, 0));
    }
}
