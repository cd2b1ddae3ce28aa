//! Pull consumers lease jobs with a wait, and settle each by its id and token.
//!
//! A pull sleeps until the first of: the next due time that Redis reports, a wake-up of the topic,
//! the poll (pushes by plain commands send no wake-up), and the end of its wait. It subscribes before
//! the look that precedes the sleep, so it misses no push. Redis decides what is due, so no job comes
//! early.

mod by_token;
mod options;
mod round;

pub use by_token::{LeasedJob, TokenError};
pub use options::{PullOptions, PullOptionsError, check_consumer};
pub use round::Pulled;

use std::time::Duration;

use duebox_job::{Shard, TopicName};
use tokio::time::{Instant, sleep, sleep_until};

use self::round::PullRound;
use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::clock::now;
use crate::wire::constants::BATCH_MAX;
use crate::wire::link::REPLY_MAX;
use crate::wire::reply::read_time_us;
use crate::wire::script;
use crate::work::lease::{LeaseCall, Leased};
use crate::work::listen::{Listener, Notification};
use crate::work::promote::Promotion;
use crate::work::reclaim::ReclaimRule;
use crate::work::turn::{Turn, TurnReply};
use crate::work::wake_up::{SleepEnd, WakeUpReceiver};

/// The shortest sleep, so that a wait of 0 does not spin.
const SLEEP_MIN: Duration = Duration::from_millis(1);
/// The first wait before a call without a reply is repeated; it doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// Repeats of a call without a reply, even after the end of the wait: it may have leased jobs.
const REPEATS_MIN: u32 = 2;

/// What wakes a sleeping pull.
enum Waker<'b> {
    /// A subscription of its own, made on the first sleep.
    Own(Option<Listener>),
    /// A receiver that shares the process's subscription.
    WakeUpReceiver(&'b mut WakeUpReceiver),
}

/// One shard, and how far promotion has come there.
struct PulledShard {
    shard: Shard,
    skip: u64,
}

impl Queue {
    /// Leases jobs that are due, or waits until some are. Returns as soon as there is a job, and
    /// empty at the end of the wait. It also reclaims expired leases and promotes due jobs.
    ///
    /// An idle wait costs one round trip a poll and one a wake-up, for each shard. The first pull of a
    /// shard costs one more, which asks for the clock of its server. If the future is dropped before it
    /// ends, leased jobs may be lost to the caller; they return when their leases expire.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply until the end of the wait, or refused. Jobs may be
    /// leased all the same; they return when their leases expire.
    pub async fn pull(&self, topic: &TopicName, pull: &PullOptions) -> Result<Pulled, QueueError> {
        self.pull_woken(topic, pull, Waker::Own(None)).await
    }

    /// The same for many pulls in one process: `receiver` wakes it, and it needs no connection of its
    /// own. It returns empty when the receiver is cancelled.
    ///
    /// # Errors
    /// As [`pull`](Self::pull).
    pub async fn pull_with_receiver(
        &self,
        topic: &TopicName,
        pull: &PullOptions,
        receiver: &mut WakeUpReceiver,
    ) -> Result<Pulled, QueueError> {
        self.pull_woken(topic, pull, Waker::WakeUpReceiver(receiver)).await
    }

    async fn pull_woken(
        &self,
        topic: &TopicName,
        pull: &PullOptions,
        mut waker: Waker<'_>,
    ) -> Result<Pulled, QueueError> {
        let end = Instant::now() + pull.wait();
        let mut shards = self.shards_of(topic, end).await?;
        // A random shard goes first, so that the shards take turns.
        let first = fastrand::usize(..shards.len().max(1));
        shards.rotate_left(first);
        let all: Vec<Shard> = shards.iter().map(|pulled| pulled.shard.clone()).collect();
        loop {
            let round = self.round(&mut shards, pull, end).await?;
            let now = Instant::now();
            if !round.pulled.leases.is_empty() || (now >= end && !round.more) {
                return Ok(round.pulled);
            }
            if round.more {
                continue;
            }
            let rest = round.wait.unwrap_or(pull.poll()).clamp(SLEEP_MIN, pull.poll());
            let until = end.min(now + rest);
            match &mut waker {
                Waker::WakeUpReceiver(receiver) => {
                    if let SleepEnd::Cancelled = receiver.sleep(until).await {
                        return Ok(round.pulled);
                    }
                }
                Waker::Own(Some(heard)) => {
                    if !sleep_or_wake(heard, until).await {
                        waker = Waker::Own(None);
                    }
                }
                Waker::Own(none) => match self.listen_to(&all).await {
                    Ok(subscribed) => *none = Some(subscribed),
                    // Without wake-ups the poll finds new jobs.
                    Err(_) => sleep_until(until).await,
                },
            }
        }
    }

    async fn shards_of(
        &self,
        topic: &TopicName,
        end: Instant,
    ) -> Result<Vec<PulledShard>, QueueError> {
        let mut retries = Retries::until(end);
        loop {
            match self.shards(topic).await {
                Ok(shards) => {
                    return Ok(shards.all().map(|shard| PulledShard { shard, skip: 0 }).collect());
                }
                Err(error) => retries.wait_out(error).await?,
            }
        }
    }

    /// Pulls from one shard after the other until there are enough jobs.
    async fn round(
        &self,
        shards: &mut [PulledShard],
        pull: &PullOptions,
        end: Instant,
    ) -> Result<PullRound, QueueError> {
        let mut all = PullRound::default();
        for shard in shards {
            let Some(call) = pull.call_beside(&all.pulled.leases) else { break };
            match self.pull_shard(shard, pull, call, end).await {
                Ok(round) => all.add(round),
                // The caller gets the leased jobs, even if another shard fails.
                Err(_) if !all.pulled.leases.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    async fn pull_shard(
        &self,
        pulled: &mut PulledShard,
        pull: &PullOptions,
        mut call: LeaseCall,
        end: Instant,
    ) -> Result<PullRound, QueueError> {
        let mut retries = Retries::until(end);
        let mut was_late = false;
        let reply = loop {
            match self.pull_once(pulled, pull, &mut call).await {
                // The clock of Redis was set since the last pull. The reply told the clock.
                Ok(TurnReply { leased: Some(Leased::Late), .. }) if !was_late => was_late = true,
                Ok(reply) => break reply,
                // The same call returns the same jobs.
                Err(error) => retries.wait_out(error).await?,
            }
        };
        if let Some(promoted) = &reply.promoted {
            pulled.skip =
                if promoted.more { pulled.skip.saturating_add(promoted.skipped) } else { 0 };
        }
        PullRound::of(reply, &call)
    }

    /// Takes a turn at a shard. Redis leases only while somebody waits for the reply.
    async fn pull_once(
        &self,
        pulled: &PulledShard,
        pull: &PullOptions,
        call: &mut LeaseCall,
    ) -> Result<TurnReply, QueueError> {
        self.learn_clock(&pulled.shard).await?;
        let sent_at = now();
        // From then on nothing waits for this reply.
        let last_at_us = self.known_clocks.us_at(&pulled.shard, sent_at + REPLY_MAX);
        call.last_at_ms = last_at_us.map(|us| us / 1_000);
        let turn = Turn {
            reclaim: Some(ReclaimRule {
                max_crashes: Some(pull.max_crashes),
                delay: Duration::ZERO,
                info: pull.crashed_info.as_deref(),
                renewed_within: call.lease / 3,
            }),
            promote: Some(Promotion {
                jobs: BATCH_MAX,
                skip: pulled.skip,
                discards_bad: pull.discards_bad_dues,
            }),
            lease: Some(call),
            ..Turn::default()
        };
        let reply = self.turn(&pulled.shard, &turn).await?;
        if let Some(redis_us) = reply.promoted_at_us {
            self.known_clocks.add_sample(&pulled.shard, sent_at, now(), redis_us);
        }
        Ok(reply)
    }

    /// Asks for the clock of a shard's server if no reply told it yet.
    async fn learn_clock(&self, shard: &Shard) -> Result<(), QueueError> {
        let sent_at = now();
        if self.known_clocks.us_at(shard, sent_at).is_none() {
            let clock = self.connection.clock_of(&self.keys.of(shard).key("unack"));
            let time = script::run_one_idempotent(&self.connection, clock).await?;
            self.known_clocks.add_sample(shard, sent_at, now(), read_time_us(time)?);
        }
        Ok(())
    }
}

/// Repeats calls without a reply until a deadline, with growing waits.
struct Retries {
    end: Instant,
    wait: Duration,
    done: u32,
}

impl Retries {
    fn until(end: Instant) -> Self {
        Self { end, wait: RETRY_FIRST, done: 0 }
    }

    /// Waits before the next try. Returns the error if another try would not help, or is too late.
    async fn wait_out(&mut self, error: QueueError) -> Result<(), QueueError> {
        let is_over = self.done >= REPEATS_MIN && Instant::now() + self.wait >= self.end;
        if is_over || !matches!(error, QueueError::NoReply(_)) {
            return Err(error);
        }
        sleep(self.wait).await;
        self.wait = (self.wait * 2).min(RETRY_MAX);
        self.done += 1;
        Ok(())
    }
}

/// Sleeps until `until` or the next wake-up. False if the subscription is gone; it sleeps to the end
/// then, so that a connection that breaks at once does not make the caller spin.
async fn sleep_or_wake(listener: &mut Listener, until: Instant) -> bool {
    tokio::select! {
        () = sleep_until(until) => true,
        heard = listener.next() => match heard {
            Notification::WakeUp(_) | Notification::Changed(_) | Notification::Control(_) => true,
            Notification::Lost => {
                sleep_until(until).await;
                false
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers pull on any thread.
    #[test]
    fn a_pull_may_move_between_threads() {
        fn moves<T: Send>(_: &T) {}
        fn pulls(queue: &Queue, topic: &TopicName, pull: &PullOptions) {
            moves(&queue.pull(topic, pull));
        }
        let _: fn(&Queue, &TopicName, &PullOptions) = pulls;
    }
}
