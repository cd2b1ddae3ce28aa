//! Sends a turn until Redis replies. Guests whose lease ends meanwhile are interrupted, and a drain ends in
//! time, whatever Redis does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_queue::{QueueError, TurnReply};
use tokio::sync::watch;
use tracing::warn;

use super::turn::Plan;
use super::under_way::{Answer, Parts, TurnUnderWay, second_answered};
use super::{DRAIN_REPLY_MAX, Worker, WorkerCommand};
use crate::monotonic;
use crate::redis_host::outage::{self, RETRY_FIRST};

impl Worker {
    /// Sends a turn until Redis replies. Returns the reply, and when the successful try was sent.
    pub(super) async fn reply_to(
        &mut self,
        mut turn: TurnUnderWay,
    ) -> Option<(Plan, TurnReply, Instant)> {
        let mut wait = RETRY_FIRST;
        loop {
            let (plan, answer) = self.answer_to(&mut turn).await?;
            let error = match answer {
                Ok(reply) => return Some((plan, reply, turn.sent_at)),
                Err(error) => error,
            };
            self.parts.services.outage.record_error(&error);
            wait = outage::next_retry(wait).min(self.retry_max());
            if !self.wait_for_redis(wait).await {
                return None;
            }
            turn = self.turn_of(plan, monotonic::now(), true);
        }
    }

    /// Waits for the answer to one try, interrupts guests whose lease runs out meanwhile, and prepares a second
    /// turn. Ends without an answer if the drain ends.
    async fn answer_to(&mut self, turn: &mut TurnUnderWay) -> Option<Answer> {
        let mut is_sent = turn.is_second;
        if is_sent {
            self.send_second(turn.parts).await;
        }
        loop {
            let first_end = self.in_flight.first_end(monotonic::now());
            let ends_at = self.turn_ends_at(turn.sent_at);
            let large = self.parts.batch_limits.large_turn(monotonic::now());
            let enough = large.filter(|_| turn.parts == Parts::Leases && self.next.is_none());
            tokio::select! {
                biased;
                answer = turn.answered() => return answer,
                // Another task writes the turn to the connection meanwhile.
                () = tokio::task::yield_now(), if !is_sent => {
                    is_sent = true;
                    self.report_settled();
                }
                () = second_answered(&mut self.next) => {}
                () = self.parts.executor.changed(0, enough.unwrap_or_default()), if enough.is_some() => {}
                () = sleep_until(first_end) => self.interrupt_ended(),
                () = sleep_until(ends_at) => {
                    self.report_silence();
                    return None;
                }
                () = next_command(&mut self.parts.commands) => {}
            }
            self.send_second(turn.parts).await;
        }
    }

    /// Waits before a retry, and interrupts guests whose lease runs out meanwhile. False if the drain ends.
    async fn wait_for_redis(&mut self, longest: Duration) -> bool {
        let outage = Arc::clone(&self.parts.services.outage);
        let mut over = std::pin::pin!(outage.wait(longest));
        loop {
            self.follow_commands();
            let (first_end, ends_at) =
                (self.in_flight.first_end(monotonic::now()), self.ordered_end());
            if ends_at.is_some_and(|at| monotonic::now() >= at) {
                return false;
            }
            tokio::select! {
                biased;
                () = &mut over => return true,
                () = sleep_until(first_end) => self.interrupt_ended(),
                () = sleep_until(ends_at) => {}
                () = next_command(&mut self.parts.commands) => {}
            }
        }
    }

    /// Interrupts the guests whose lease has ended.
    pub(super) fn interrupt_ended(&self) {
        let ended = self.in_flight.interrupt_ended(monotonic::now());
        if ended > 0 {
            warn!(topic = %self.parts.shard.topic(), jobs = ended,
                "leases expired without renewal; their guests are interrupted");
        }
    }

    /// When a drain gives up a turn that was sent at this moment, if one was ordered. A Redis that hangs is
    /// given no more time at the end of the drain than one that is known to be away.
    fn turn_ends_at(&self, sent_at: Instant) -> Option<Instant> {
        match *self.parts.commands.borrow() {
            WorkerCommand::Work => None,
            WorkerCommand::Drain(until) => {
                Some(self.give_up_at(until).min(until.max(sent_at + DRAIN_REPLY_MAX)))
            }
        }
    }

    /// The drain ends although Redis has not replied: nothing else waits for it either.
    fn report_silence(&self) {
        let outage = &self.parts.services.outage;
        if !outage.is_ongoing() {
            outage.record_error(&QueueError::NoReply("the drain ends".to_owned()));
        }
    }

    /// When the drain ends that the daemon has ordered, if any.
    fn ordered_end(&self) -> Option<Instant> {
        match *self.parts.commands.borrow() {
            WorkerCommand::Work => None,
            WorkerCommand::Drain(until) => Some(self.give_up_at(until)),
        }
    }

    /// The longest wait before a retry: each lease is renewed within the other two thirds.
    pub(super) fn retry_max(&self) -> Duration {
        self.parts.bound.borrow().lease / 3
    }
}

/// Waits for the next command. If the sender is gone, the last command stays in force.
pub(super) async fn next_command(commands: &mut watch::Receiver<WorkerCommand>) {
    if commands.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}
