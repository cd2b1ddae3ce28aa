//! The way to end a guest from outside. Raising it is final: the first reason stands, and whoever
//! looks or waits afterwards sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Why a guest is ended before it is done. Neither spends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptReason {
    /// The lease is gone: another runner may have the job already.
    LeaseLost,
    /// The daemon stops and its drain time is over.
    Shutdown,
}

impl InterruptReason {
    /// The reason as a clause for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LeaseLost => "interrupted: the lease was lost",
            Self::Shutdown => "interrupted: the runner is shutting down",
        }
    }
}

/// A switch that ends the guest it was given to, at the next epoch tick (2 ms) or at once while the
/// guest waits in a host call. One may serve many jobs. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    /// 0: not raised; else the reason plus one.
    state: AtomicU8,
    raised: Notify,
}

impl Interrupt {
    /// A switch that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the guests that hold this switch. The first reason stands.
    pub fn raise(&self, why: InterruptReason) {
        let state = match why {
            InterruptReason::LeaseLost => 1,
            InterruptReason::Shutdown => 2,
        };
        // Only the first raise counts, so a failed exchange is as good as a done one.
        if self.0.state.compare_exchange(0, state, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.0.raised.notify_waiters();
        }
    }

    /// The reason, once raised.
    pub fn reason(&self) -> Option<InterruptReason> {
        match self.0.state.load(Ordering::Acquire) {
            0 => None,
            1 => Some(InterruptReason::LeaseLost),
            _ => Some(InterruptReason::Shutdown),
        }
    }

    /// Waits until it is raised.
    pub(crate) async fn raised(&self) -> InterruptReason {
        loop {
            let mut notified = std::pin::pin!(self.0.raised.notified());
            notified.as_mut().enable();
            if let Some(reason) = self.reason() {
                return reason;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_stands() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.reason(), None);
        interrupt.clone().raise(InterruptReason::LeaseLost);
        interrupt.raise(InterruptReason::Shutdown);
        assert_eq!(interrupt.reason(), Some(InterruptReason::LeaseLost));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let interrupt = Interrupt::new();
        let waiter = tokio::spawn({
            let interrupt = interrupt.clone();
            async move { interrupt.raised().await }
        });
        tokio::task::yield_now().await;
        interrupt.raise(InterruptReason::Shutdown);
        assert_eq!(waiter.await.unwrap(), InterruptReason::Shutdown);
        assert_eq!(interrupt.raised().await, InterruptReason::Shutdown);
    }
}
