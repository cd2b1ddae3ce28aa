//! The memory budget that all guests share.
//!
//! A guest that starts waits until its initial memory fits. A guest that grows beyond the budget ends as a
//! host fault and spends no attempt. It does not wait: guests that wait while they hold memory could
//! deadlock.
//!
//! One eighth of the budget is reserved for handlers that hold little. A handler whose guests hold more than
//! an eighth cannot use the reserve, so a handler with many large guests never blocks the small ones.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::futures::Notified;
use tokio::sync::{Mutex, MutexGuard, Notify};

/// The reserve is the budget divided by this.
const RESERVE_DIVISOR: usize = 8;

/// Holds memory that no job needs now, such as the instances that wait for their next job.
pub(crate) trait Reclaim: Send + Sync {
    /// Frees at least this many bytes, or nothing. Returns whether it did.
    fn reclaim(&self, bytes: usize) -> bool;
}

/// The memory that the guests of one sandbox hold, and their common limit.
pub(crate) struct MemoryBudget {
    max: AtomicUsize,
    held: AtomicUsize,
    /// What to reclaim when the budget is exhausted.
    idle: OnceLock<Weak<dyn Reclaim>>,
    /// How many guests wait. While it is 0, a release is only a subtraction.
    waiting: AtomicUsize,
    released: Notify,
}

/// The budget is exhausted. This error ends the guest that asked for memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the memory of all guests together is exhausted: {wanted} bytes more exceed the {limit} bytes that this handler \
     may use of runner.memory"
)]
pub(crate) struct BudgetExhausted {
    wanted: usize,
    /// Bytes that all guests together may hold for this request to succeed.
    limit: usize,
    missing: usize,
}

/// The part of the budget that the guests of one handler hold.
pub(crate) struct MemoryAccount {
    budget: Arc<MemoryBudget>,
    held: AtomicUsize,
    /// Held by the guest that looks for memory.
    turn: Mutex<()>,
}

impl Default for MemoryBudget {
    /// A budget without a limit.
    fn default() -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            held: AtomicUsize::new(0),
            idle: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            released: Notify::new(),
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryBudget({} of {} held)", self.held(), self.max())
    }
}

impl fmt::Debug for MemoryAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryAccount({} of {:?})", self.held.load(Ordering::SeqCst), self.budget)
    }
}

impl MemoryBudget {
    /// A budget without a limit, which reclaims memory from `idle`.
    pub(crate) fn with_idle(idle: Weak<dyn Reclaim>) -> Self {
        let budget = Self::default();
        budget.idle.get_or_init(|| idle);
        budget
    }

    /// Sets the limit, in bytes. Guests that already hold more keep it.
    pub(crate) fn limit(&self, max: usize) {
        self.max.store(max, Ordering::SeqCst);
        self.released.notify_waiters();
    }

    /// Takes all of the bytes if the total stays within `limit`, or none.
    fn take(&self, bytes: usize, limit: usize) -> Result<(), BudgetExhausted> {
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(()),
            Err(held) => {
                let missing = held.saturating_add(bytes).saturating_sub(limit);
                Err(BudgetExhausted { wanted: bytes, limit, missing })
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        if self.has_waiting() {
            self.released.notify_waiters();
        }
    }

    /// Whether a guest waits for memory.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Bytes that all guests may hold.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }

    /// Bytes that are reserved for handlers that hold little.
    fn reserve(&self) -> usize {
        self.max() / RESERVE_DIVISOR
    }

    /// Bytes that all guests hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }
}

impl MemoryAccount {
    /// The account of a handler that holds nothing yet.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, held: AtomicUsize::new(0), turn: Mutex::default() }
    }

    /// Bytes that the guests of this handler may hold if no other handler holds any.
    pub(crate) fn max(&self) -> usize {
        self.budget.max() - self.budget.reserve()
    }

    /// Takes all of the bytes, or none. If they are not available, it reclaims idle memory and tries once
    /// more.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), BudgetExhausted> {
        let before = self.held.fetch_add(bytes, Ordering::SeqCst);
        let limit = self.limit(before.saturating_add(bytes));
        let taken = self.budget.take(bytes, limit).or_else(|exhausted| {
            let idle = self.budget.idle.get().and_then(Weak::upgrade);
            match idle.is_some_and(|idle| idle.reclaim(exhausted.missing)) {
                true => self.budget.take(bytes, limit),
                false => Err(exhausted),
            }
        });
        if taken.is_err() {
            self.held.fetch_sub(bytes, Ordering::SeqCst);
        }
        taken
    }

    /// Returns bytes to the budget.
    pub(crate) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.release(bytes);
    }

    /// Waits until no other guest of this handler looks for memory. The guests take turns in the order in which they came.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Counts one waiting guest until the result is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        Waiting::new(&self.budget)
    }

    /// Bytes that all guests together may hold when this handler holds `own` of them.
    fn limit(&self, own: usize) -> usize {
        if own > self.budget.reserve() { self.max() } else { self.budget.max() }
    }
}

/// Memory of the budget that the host holds for a guest, for example a body in transit. It is released on
/// drop.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    account: Arc<MemoryAccount>,
    bytes: usize,
}

impl MemoryReservation {
    /// An empty reservation.
    pub(crate) fn new(account: Arc<MemoryAccount>) -> Self {
        Self { account, bytes: 0 }
    }

    /// Another empty reservation of the same account.
    pub(crate) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.account))
    }

    /// Takes all of the bytes, or none. No bytes always fit, also if others have exhausted the budget.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), BudgetExhausted> {
        if bytes == 0 {
            return Ok(());
        }
        self.account.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.release(self.bytes);
        }
    }
}

/// A guest that waits for memory.
pub(crate) struct Waiting<'a>(&'a MemoryBudget);

impl<'a> Waiting<'a> {
    fn new(budget: &'a MemoryBudget) -> Self {
        budget.waiting.fetch_add(1, Ordering::SeqCst);
        Self(budget)
    }

    /// Ends when memory was released after this call. Another guest may take it before this one does.
    pub(crate) fn released(&self) -> Notified<'_> {
        self.0.released.notified()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(max: usize) -> MemoryAccount {
        let budget = Arc::new(MemoryBudget::default());
        budget.limit(max);
        MemoryAccount::new(budget)
    }

    #[test]
    fn an_account_takes_no_more_than_the_budget_has() {
        let account = account(usize::MAX);
        account.take(1 << 40).unwrap();
        account.release(1 << 40);
        account.budget.limit(80);
        account.take(60).unwrap();
        assert_eq!(account.take(11).unwrap_err().wanted, 11);
        assert!(account.take(usize::MAX - 60).is_err());
        account.take(10).unwrap();
        account.release(70);
        assert_eq!((account.budget.held(), account.held.into_inner()), (0, 0));
    }

    #[test]
    fn an_eighth_is_reserved_for_handlers_that_hold_less() {
        let large = account(800);
        let small = MemoryAccount::new(Arc::clone(&large.budget));
        let other = MemoryAccount::new(Arc::clone(&large.budget));
        assert_eq!(large.max(), 700);
        large.take(700).unwrap();
        assert!(large.take(1).is_err());
        small.take(40).unwrap();
        other.take(40).unwrap();
        assert!(small.take(21).is_err(), "everything is held");
        small.take(20).unwrap();
        other.release(40);
        large.release(1);
        assert!(large.take(1).is_err(), "the reserve is for handlers that hold less");
        small.take(40).unwrap();
        small.release(100);
        large.release(699);
        small.take(700).unwrap();
        small.release(700);
        assert_eq!(large.budget.held(), 0);
    }

    #[test]
    fn a_reservation_is_released_on_drop() {
        let account = Arc::new(account(16));
        let mut reservation = MemoryReservation::new(Arc::clone(&account));
        reservation.grow(4).unwrap();
        reservation.grow(9).unwrap();
        assert!(reservation.grow(2).is_err());
        assert!(reservation.another().grow(1).is_ok());
        account.budget.limit(1);
        assert!(reservation.grow(0).is_ok() && reservation.grow(1).is_err());
        assert_eq!(account.budget.held(), 13);
        drop(reservation);
        assert_eq!(account.budget.held(), 0);
    }

    #[tokio::test]
    async fn a_release_wakes_a_waiting_guest() {
        let account = Arc::new(account(16));
        account.take(14).unwrap();
        let waiter = tokio::spawn({
            let account = Arc::clone(&account);
            async move {
                let waiting = account.wait();
                while account.take(5).is_err() {
                    waiting.released().await;
                }
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(account.budget.waiting.load(Ordering::SeqCst), 1);
        account.release(14);
        waiter.await.unwrap();
        let waiting = account.budget.waiting.load(Ordering::SeqCst);
        assert_eq!((account.budget.held(), waiting), (5, 0));
    }
}
