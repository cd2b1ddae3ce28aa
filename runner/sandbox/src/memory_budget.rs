//! The memory of all guests together. A guest that starts waits until there is room for it; one that
//! grows beyond what is left ends as a host fault and spends no attempt: it did nothing that it may not,
//! and waiting with what it holds already could make all wait for each other.
//!
//! An eighth is kept for handlers that hold little: one whose guests hold more than an eighth leaves it
//! alone. So what a handler with many large guests takes, and keeps for as long as they sleep, never shuts
//! out the small ones beside it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::Notify;

use crate::instance::cache::Shelf;

/// The part of the budget that is kept for handlers that hold less than it: one in so many.
const KEPT_ONE_IN: usize = 8;

/// What the guests of one sandbox hold, and what they may hold together.
pub(crate) struct Budget {
    max: AtomicUsize,
    held: AtomicUsize,
    /// Instances that hold some of it and run no job: the first to go where it does not suffice.
    spare: OnceLock<Weak<Shelf>>,
    /// Guests that wait for room; without any, giving back costs no more than a subtraction.
    waiting: AtomicUsize,
    returned: Notify,
}

/// The budget has no room. It ends the guest that wanted it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the memory of all guests together is spent: {wanted} bytes more would be over the {limit} that this handler \
     may fill of runner.memory"
)]
pub(crate) struct Spent {
    wanted: usize,
    /// Bytes that all together may hold for this one to have what it wants.
    limit: usize,
    short: usize,
}

/// What the guests of one handler hold of the budget.
pub(crate) struct Account {
    budget: Arc<Budget>,
    held: AtomicUsize,
}

impl Default for Budget {
    /// Without an end.
    fn default() -> Self {
        Self {
            max: AtomicUsize::new(usize::MAX),
            held: AtomicUsize::new(0),
            spare: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            returned: Notify::new(),
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {} held)", self.held(), self.max())
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({} of {:?})", self.held.load(Ordering::SeqCst), self.budget)
    }
}

impl Budget {
    /// A budget without an end, of which the instances on a shelf hold some.
    pub(crate) fn with_spare(shelf: &Arc<Shelf>) -> Self {
        let budget = Self::default();
        budget.spare.get_or_init(|| Arc::downgrade(shelf));
        budget
    }

    /// From now on, all together have so many bytes. Who holds more keeps it.
    pub(crate) fn limit(&self, max: usize) {
        self.max.store(max, Ordering::SeqCst);
        self.returned.notify_waiters();
    }

    /// Takes so many bytes if all hold no more than `limit` then, or none.
    fn take(&self, bytes: usize, limit: usize) -> Result<(), Spent> {
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(()),
            Err(held) => {
                let short = held.saturating_add(bytes).saturating_sub(limit);
                Err(Spent { wanted: bytes, limit, short })
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.returned.notify_waiters();
        }
    }

    /// Bytes that all guests may hold.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Ordering::SeqCst)
    }

    /// Bytes that are kept for handlers that hold less.
    fn kept(&self) -> usize {
        self.max() / KEPT_ONE_IN
    }

    /// Bytes that all guests hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }
}

impl Account {
    /// The account of a handler that holds nothing yet.
    pub(crate) fn of(budget: Arc<Budget>) -> Self {
        Self { budget, held: AtomicUsize::new(0) }
    }

    /// Bytes that its guests may hold at most, were there no others.
    pub(crate) fn max(&self) -> usize {
        self.budget.max() - self.budget.kept()
    }

    /// Takes so many bytes, or none. Where they are not there, instances that only wait for a job end first,
    /// if that helps.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Spent> {
        let before = self.held.fetch_add(bytes, Ordering::SeqCst);
        let limit = self.limit(before.saturating_add(bytes));
        let taken = self.budget.take(bytes, limit).or_else(|spent| {
            let shelf = self.budget.spare.get().and_then(Weak::upgrade);
            match shelf.is_some_and(|shelf| shelf.make_room(spent.short)) {
                true => self.budget.take(bytes, limit),
                false => Err(spent),
            }
        });
        if taken.is_err() {
            self.held.fetch_sub(bytes, Ordering::SeqCst);
        }
        taken
    }

    /// Gives back so many bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.give_back(bytes);
    }

    /// Waits until there was room for so many bytes more. They may be gone again when it returns.
    pub(crate) async fn room(&self, bytes: usize) {
        let _waiting = Waiting::new(&self.budget.waiting);
        let mut returned = std::pin::pin!(self.budget.returned.notified());
        returned.as_mut().enable();
        if !self.has_room(bytes) {
            returned.await;
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        let mine = self.held.load(Ordering::SeqCst).saturating_add(bytes);
        self.budget.held().checked_add(bytes).is_some_and(|sum| sum <= self.limit(mine))
    }

    /// What all may hold together for this one to hold so many bytes.
    fn limit(&self, mine: usize) -> usize {
        if mine > self.budget.kept() { self.max() } else { self.budget.max() }
    }
}

/// What one thing beside a guest's memory holds of the budget, such as a body on its way. It goes back with
/// the share.
#[derive(Debug)]
pub(crate) struct Share {
    account: Arc<Account>,
    bytes: usize,
}

impl Share {
    /// A share of nothing yet.
    pub(crate) fn of(account: Arc<Account>) -> Self {
        Self { account, bytes: 0 }
    }

    /// Another share of the same account, of nothing yet.
    pub(crate) fn another(&self) -> Self {
        Self::of(Arc::clone(&self.account))
    }

    /// Takes so many bytes more, or none.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Spent> {
        self.account.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.give_back(self.bytes);
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

    fn account(max: usize) -> Account {
        let budget = Arc::new(Budget::default());
        budget.limit(max);
        Account::of(budget)
    }

    #[test]
    fn it_gives_what_it_has_and_no_more() {
        let account = account(usize::MAX);
        account.take(1 << 40).unwrap();
        account.give_back(1 << 40);
        account.budget.limit(80);
        account.take(60).unwrap();
        assert_eq!(account.take(11).unwrap_err().wanted, 11);
        assert!(account.take(usize::MAX - 60).is_err());
        account.take(10).unwrap();
        account.give_back(70);
        assert_eq!((account.budget.held(), account.held.into_inner()), (0, 0));
    }

    #[test]
    fn an_eighth_is_kept_for_handlers_that_hold_no_more_than_that() {
        let large = account(800);
        let small = Account::of(Arc::clone(&large.budget));
        let other = Account::of(Arc::clone(&large.budget));
        assert_eq!(large.max(), 700);
        large.take(700).unwrap();
        assert!(large.take(1).is_err());
        small.take(40).unwrap();
        other.take(40).unwrap();
        assert!(small.take(21).is_err(), "all is held");
        small.take(20).unwrap();
        other.give_back(40);
        large.give_back(1);
        assert!(large.take(1).is_err(), "it is for those that hold less");
        small.take(40).unwrap();
        small.give_back(100);
        large.give_back(699);
        small.take(700).unwrap();
        small.give_back(700);
        assert_eq!(large.budget.held(), 0);
    }

    #[test]
    fn a_share_goes_back_whole() {
        let account = Arc::new(account(16));
        let mut share = Share::of(Arc::clone(&account));
        share.grow(4).unwrap();
        share.grow(9).unwrap();
        assert!(share.grow(2).is_err());
        assert!(share.another().grow(1).is_ok());
        assert_eq!(account.budget.held(), 13);
        drop(share);
        assert_eq!(account.budget.held(), 0);
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_what_is_given_back() {
        let account = Arc::new(account(16));
        account.take(14).unwrap();
        let waiter = tokio::spawn({
            let account = Arc::clone(&account);
            async move {
                while account.take(5).is_err() {
                    account.room(5).await;
                }
            }
        });
        tokio::task::yield_now().await;
        assert_eq!(account.budget.waiting.load(Ordering::SeqCst), 1);
        account.give_back(14);
        waiter.await.unwrap();
        let waiting = account.budget.waiting.load(Ordering::SeqCst);
        assert_eq!((account.budget.held(), waiting), (5, 0));
    }
}
