//! Interrupts a guest from outside. An interrupt is final: the first reason stays.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Why a guest is interrupted. Neither reason spends an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptReason {
    /// The lease is lost: another runner may already have the job.
    LeaseLost,
    /// The daemon stops, and its drain timeout has expired.
    Shutdown,
}

impl InterruptReason {
    /// The reason as a text.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LeaseLost => "interrupted: the lease was lost",
            Self::Shutdown => "interrupted: the runner is shutting down",
        }
    }
}

/// Interrupts the guests that it was given to: at the next epoch tick (2 ms), or at once while a guest waits
/// in a host call. One interrupt may serve many jobs. Clones are the same interrupt.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Debug, Default)]
struct InterruptState {
    reason: OnceLock<InterruptReason>,
    raised: Notify,
}

impl Interrupt {
    /// An interrupt that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts the guests. The first reason stays.
    pub fn raise(&self, reason: InterruptReason) {
        if self.0.reason.set(reason).is_ok() {
            self.0.raised.notify_waiters();
        }
    }

    /// The reason, if the interrupt is raised.
    pub fn reason(&self) -> Option<InterruptReason> {
        self.0.reason.get().copied()
    }

    /// Waits until the interrupt is raised.
    pub async fn raised(&self) -> InterruptReason {
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
    fn the_first_reason_stays() {
        let interrupt = Interrupt::new();
        assert_eq!(interrupt.reason(), None);
        interrupt.clone().raise(InterruptReason::LeaseLost);
        interrupt.raise(InterruptReason::Shutdown);
        assert_eq!(interrupt.reason(), Some(InterruptReason::LeaseLost));
    }

    #[tokio::test]
    async fn a_raised_interrupt_wakes_a_waiting_task() {
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
