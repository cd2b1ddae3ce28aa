//! A semaphore whose waiters stand in several queues, served in turn.
//!
//! The length of a queue does not matter: a queue of a thousand waiters gets no more permits than a queue
//! of one. A part of the permits can be reserved, in equal shares, for queues that hold less than their
//! share. Long holders then cannot lock out queues that come later.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A semaphore with a fixed number of permits. Clones are the same semaphore.
#[derive(Clone)]
pub struct FairSemaphore(Arc<Mutex<SemaphoreState>>);

/// A queue of waiters, and the permits that it holds. Dropping it removes the queue.
pub struct PermitQueue {
    semaphore: FairSemaphore,
    id: u64,
}

/// A permit, held until it is dropped.
pub struct Permit(Option<Arc<PermitQueue>>);

type Waiter = (oneshot::Sender<Permit>, Arc<PermitQueue>);

struct SemaphoreState {
    free: usize,
    /// How many permits are reserved for queues that hold less than their share.
    reserved: usize,
    /// The share of each queue, as far as it wants that many.
    share: usize,
    /// How many permits all queues together lack of their shares.
    deficit: usize,
    queues: HashMap<u64, QueueState>,
    /// The queues with waiters, the next one to be served first.
    round_robin: VecDeque<u64>,
    next_id: u64,
}

#[derive(Default)]
struct QueueState {
    held: usize,
    wants: usize,
    waiting: VecDeque<Waiter>,
}

impl FairSemaphore {
    /// Creates a semaphore; of its permits, `reserved` are for queues that hold less than their share.
    pub fn new(permits: usize, reserved: usize) -> Self {
        Self(Arc::new(Mutex::new(SemaphoreState {
            free: permits,
            reserved: reserved.min(permits),
            share: reserved.min(permits),
            deficit: 0,
            queues: HashMap::new(),
            round_robin: VecDeque::new(),
            next_id: 0,
        })))
    }

    /// Adds a queue that wants so many permits at once.
    pub fn queue(&self, wants: usize) -> Arc<PermitQueue> {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.queues.insert(id, QueueState { wants, ..QueueState::default() });
        state.recompute_shares();
        drop(state);
        Arc::new(PermitQueue { semaphore: self.clone(), id })
    }

    /// The number of free permits.
    pub fn free(&self) -> usize {
        self.state().free
    }

    fn state(&self) -> MutexGuard<'_, SemaphoreState> {
        self.0.lock()
    }

    /// Changes the state, then grants permits to waiters.
    fn change(&self, change: impl FnOnce(&mut SemaphoreState)) {
        let mut state = self.state();
        change(&mut state);
        while let Some((waiter, queue)) = state.next() {
            let id = queue.id;
            // A waiter that gave up returns its permit.
            if let Err(mut permit) = waiter.send(Permit(Some(queue))) {
                let queue = permit.0.take();
                state.give_back(id);
                // The last reference to a queue removes it, which locks the semaphore again.
                drop(state);
                drop((permit, queue));
                state = self.state();
            }
        }
    }
}

impl PermitQueue {
    /// Waits for a permit. `wants` is how many permits the queue wants at once now.
    pub async fn acquire(self: &Arc<Self>, wants: usize) -> Permit {
        loop {
            let waiter = {
                let mut state = self.semaphore.state();
                if state.try_acquire(self.id, wants) {
                    return Permit(Some(Arc::clone(self)));
                }
                let (waiter, permit) = oneshot::channel();
                state.enqueue(self.id, (waiter, Arc::clone(self)));
                permit
            };
            if let Ok(permit) = waiter.await {
                return permit;
            }
        }
    }
}

impl Drop for PermitQueue {
    fn drop(&mut self) {
        self.semaphore.change(|state| {
            state.queues.remove(&self.id);
            state.recompute_shares();
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.semaphore.change(|state| state.give_back(queue.id));
        }
    }
}

impl QueueState {
    fn deficit(&self, share: usize) -> usize {
        self.wants.min(share).saturating_sub(self.held)
    }
}

impl SemaphoreState {
    /// Computes the shares for the current number of queues: equal, and at least one.
    fn recompute_shares(&mut self) {
        let queues = self.queues.len().max(1);
        let share = if self.reserved == 0 { 0 } else { (self.reserved / queues).max(1) };
        self.share = share;
        self.deficit = self.queues.values().map(|queue| queue.deficit(share)).sum();
    }

    /// Changes what a queue holds or wants.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut QueueState)) {
        if let Some(queue) = self.queues.get_mut(&id) {
            let before = queue.deficit(self.share);
            change(queue);
            self.deficit = self.deficit + queue.deficit(self.share) - before;
        }
    }

    /// Whether a queue may take one more permit: one is free that is not reserved for others.
    fn can_acquire(&self, id: u64) -> bool {
        let has_deficit = self.queues.get(&id).is_some_and(|queue| queue.deficit(self.share) > 0);
        let reserved = if has_deficit { 0 } else { self.deficit.min(self.reserved) };
        self.free > reserved
    }

    /// Takes a permit if the queue has no waiters and may have one.
    fn try_acquire(&mut self, id: u64, wants: usize) -> bool {
        self.change(id, |queue| queue.wants = wants);
        let waits = self.queues.get(&id).is_some_and(|queue| !queue.waiting.is_empty());
        let acquired = !waits && self.can_acquire(id);
        if acquired {
            self.take(id);
        }
        acquired
    }

    fn take(&mut self, id: u64) {
        self.free -= 1;
        self.change(id, |queue| queue.held += 1);
    }

    fn give_back(&mut self, id: u64) {
        self.free += 1;
        self.change(id, |queue| queue.held -= 1);
    }

    fn enqueue(&mut self, id: u64, waiter: Waiter) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.waiting.push_back(waiter);
        if queue.waiting.len() == 1 {
            self.round_robin.push_back(id);
        }
    }

    /// The next waiter that may have a permit, with its permit taken; its queue moves to the end.
    fn next(&mut self) -> Option<Waiter> {
        for _ in 0..self.round_robin.len() {
            let id = self.round_robin.pop_front()?;
            if !self.can_acquire(id) {
                self.round_robin.push_back(id);
                continue;
            }
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            let Some(waiter) = queue.waiting.pop_front() else { continue };
            if !queue.waiting.is_empty() {
                self.round_robin.push_back(id);
            }
            self.take(id);
            return Some(waiter);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Permit>>>;

    /// Asks for a permit: granted at once, or a pending future.
    fn ask(queue: &Arc<PermitQueue>, wants: usize) -> Result<Permit, Waiting> {
        let queue = Arc::clone(queue);
        let mut waiting: Waiting = Box::pin(async move { queue.acquire(wants).await });
        match look(&mut waiting) {
            Some(permit) => Ok(permit),
            None => Err(waiting),
        }
    }

    fn look(waiting: &mut Waiting) -> Option<Permit> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Some(permit),
            Poll::Pending => None,
        }
    }

    #[test]
    fn queues_take_turns_however_long_they_are() {
        let semaphore = FairSemaphore::new(1, 0);
        let (long, short) = (semaphore.queue(9), semaphore.queue(1));
        let mut inside = ask(&long, 9).ok().unwrap();
        let mut of_long: Vec<Waiting> = (0..3).map(|_| ask(&long, 9).err().unwrap()).collect();
        let mut of_short = ask(&short, 1).err().unwrap();
        drop(inside);
        inside = look(&mut of_long.remove(0)).unwrap();
        assert!(look(&mut of_short).is_none());
        drop(inside);
        assert!(look(&mut of_long[0]).is_none());
        inside = look(&mut of_short).unwrap();
        drop(inside);
        inside = look(&mut of_long.remove(0)).unwrap();
        drop(inside);
        drop(look(&mut of_long.remove(0)).unwrap());
        assert_eq!(semaphore.free(), 1);
    }

    #[test]
    fn a_share_is_reserved_for_queues_with_less() {
        let semaphore = FairSemaphore::new(8, 4);
        let (greedy, late) = (semaphore.queue(100), semaphore.queue(100));
        let mut held: Vec<Permit> = std::iter::from_fn(|| ask(&greedy, 100).ok()).collect();
        assert_eq!(held.len(), 6);
        held.push(ask(&late, 100).ok().unwrap());
        held.push(ask(&late, 100).ok().unwrap());
        assert!(ask(&late, 100).is_err());
        drop(held);
        assert_eq!(semaphore.free(), 8);
    }

    #[test]
    fn nothing_is_reserved_that_no_queue_wants() {
        let semaphore = FairSemaphore::new(8, 4);
        let alone = semaphore.queue(8);
        let held: Vec<Permit> = std::iter::from_fn(|| ask(&alone, 8).ok()).collect();
        assert_eq!(held.len(), 8);
        drop((held, alone));
        let (large, small) = (semaphore.queue(7), semaphore.queue(1));
        let held: Vec<Permit> = std::iter::from_fn(|| ask(&large, 7).ok()).take(7).collect();
        assert_eq!((held.len(), ask(&small, 1).is_ok()), (7, true));
    }

    #[test]
    fn more_queues_than_permits_are_served() {
        let semaphore = FairSemaphore::new(4, 1);
        let queues: Vec<_> = (0..50).map(|_| semaphore.queue(1)).collect();
        let held: Vec<Permit> = queues.iter().filter_map(|queue| ask(queue, 1).ok()).collect();
        assert_eq!(held.len(), 4);
        let mut waiting = ask(&queues[40], 1).err().unwrap();
        drop(held);
        assert!(look(&mut waiting).is_some());
    }

    #[test]
    fn a_dropped_wait_leaves_nothing_behind() {
        let semaphore = FairSemaphore::new(1, 0);
        let (one, other) = (semaphore.queue(1), semaphore.queue(1));
        let inside = ask(&one, 1).ok().unwrap();
        drop(ask(&one, 1).err().unwrap());
        drop(ask(&other, 1).err().unwrap());
        let mut waits = ask(&other, 1).err().unwrap();
        drop(inside);
        let granted = look(&mut waits).unwrap();
        let untaken = ask(&one, 1).err().unwrap();
        drop(granted);
        // This permit was granted and never polled.
        drop(untaken);
        assert_eq!(semaphore.free(), 1);
        drop((one, other));
        assert_eq!(semaphore.state().queues.len(), 0);
    }
}
