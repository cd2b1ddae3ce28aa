//! `/v1/samples`: the last ten minutes of all topics, so that the page can show trends when it is
//! opened.
//!
//! Every ten seconds all topics are sampled over the server's own connection, apart from the job
//! path. Samples are kept in memory, bounded in time and number of topics. Attempts are totals, so
//! that the difference of two samples is a rate. Sampling stops when no request came for an hour:
//! an idle daemon then causes no load on Redis.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::{Extension, Json};
use duebox_job::TopicName;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tracing::debug;
use utoipa::ToSchema;

use super::topics::{self, TopicState};
use crate::http::access::Caller;
use crate::http::state::ServerState;

/// Sampling interval.
const EVERY: Duration = Duration::from_secs(10);
/// How long sampling continues after a request.
const WANTED_FOR: Duration = Duration::from_secs(3_600);
/// Older samples are dropped after a gap of this length.
const GAP_MS: u64 = 60_000;
/// Number of samples kept per topic.
const KEPT: usize = 60;
/// Maximum number of topics.
const TOPICS_MAX: usize = 1_000;

/// The samples of all topics.
#[derive(Default)]
pub(crate) struct Samples {
    state: Mutex<SampleState>,
    requested: Notify,
}

#[derive(Default)]
struct SampleState {
    requested_at: Option<Instant>,
    at_ms: VecDeque<u64>,
    topics: BTreeMap<TopicName, VecDeque<TopicSample>>,
}

/// One sample of a topic.
#[derive(Clone, Copy)]
struct TopicSample {
    attempts: u64,
    failed: u64,
    jobs: u64,
    late_ms: u64,
}

/// Recent samples of topics. The lists of a topic end with the latest sample; a new topic has
/// shorter ones.
#[derive(Serialize, ToSchema)]
pub(super) struct SampleList {
    /// Sampling interval in ms.
    every_ms: u64,
    /// Time of each sample, the oldest first; unix ms by Redis' clock.
    at_ms: Vec<u64>,
    /// The samples of each topic.
    topics: BTreeMap<String, TopicSamples>,
}

/// The samples of a topic.
#[derive(Default, Serialize, ToSchema)]
struct TopicSamples {
    /// Total attempts until then, by all daemons.
    attempts: Vec<u64>,
    /// Total failed attempts until then.
    failed: Vec<u64>,
    /// Live jobs.
    jobs: Vec<u64>,
    /// How long the oldest ready job had been due, in ms; 0 without ready jobs.
    late_ms: Vec<u64>,
}

/// Get recent samples of topics
///
/// One sample every ten seconds for ten minutes, as long as topics are requested at least once an
/// hour. With a token, only the topics it covers.
#[utoipa::path(get, path = "/v1/samples", tag = "topics", responses((status = 200, body = SampleList)))]
pub(super) async fn list(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
) -> Json<SampleList> {
    server.samples.note_request();
    Json(server.samples.list(|topic| caller.sees(topic)))
}

/// Samples all topics while samples are requested; never returns.
pub(in crate::http) async fn keep(server: ServerState) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        server.samples.requested().await;
        match topics::states(&server, |_| true).await {
            Ok((now_ms, states)) => {
                let sampled =
                    states.iter().map(|(name, state)| (name.clone(), TopicSample::of(state)));
                server.samples.note(now_ms, sampled);
            }
            Err(problem) => debug!("topics were not sampled: {}", problem.detail()),
        }
    }
}

impl Samples {
    /// Notes a request, which keeps sampling active.
    pub(super) fn note_request(&self) {
        let before = self.lock().requested_at.replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= WANTED_FOR) {
            self.requested.notify_one();
        }
    }

    /// Waits until there was a recent request.
    async fn requested(&self) {
        let is_wanted = || self.lock().requested_at.is_some_and(|at| at.elapsed() < WANTED_FOR);
        while !is_wanted() {
            self.requested.notified().await;
        }
    }

    fn note(&self, now_ms: u64, samples: impl Iterator<Item = (TopicName, TopicSample)>) {
        let mut state = self.lock();
        if state.at_ms.back().is_some_and(|last| last + GAP_MS < now_ms) {
            state.at_ms.clear();
            state.topics.clear();
        }
        push(&mut state.at_ms, now_ms);
        let mut before = std::mem::take(&mut state.topics);
        for (name, sample) in samples.take(TOPICS_MAX) {
            let mut sampled = before.remove(&name).unwrap_or_default();
            push(&mut sampled, sample);
            state.topics.insert(name, sampled);
        }
    }

    /// Attempts per second since the last sample, or since the one before if the last is too new;
    /// `None` without recent samples.
    pub(super) fn rate(&self, topic: &TopicName, now_ms: u64, attempts: u64) -> Option<f64> {
        let state = self.lock();
        let sampled = state.topics.get(topic)?;
        let pairs = state.at_ms.iter().rev().zip(sampled.iter().rev());
        let is_far = |at_ms: u64| now_ms.saturating_sub(at_ms) >= EVERY.as_millis() as u64 / 2;
        let (at_ms, sample) = pairs.take(2).find(|(at_ms, _)| is_far(**at_ms))?;
        let ms = now_ms.saturating_sub(*at_ms);
        let ran = attempts.saturating_sub(sample.attempts);
        (ms <= GAP_MS).then(|| ran as f64 * 1_000.0 / ms as f64)
    }

    fn list(&self, sees: impl Fn(&TopicName) -> bool) -> SampleList {
        let state = self.lock();
        let sampled = state.topics.iter().filter(|(name, _)| sees(name));
        SampleList {
            every_ms: EVERY.as_millis() as u64,
            at_ms: state.at_ms.iter().copied().collect(),
            topics: sampled
                .map(|(name, sampled)| (name.to_string(), TopicSamples::of(sampled)))
                .collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, SampleState> {
        self.state.lock()
    }
}

fn push<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(new);
}

impl TopicSample {
    fn of(state: &TopicState) -> Self {
        Self {
            attempts: state.attempts,
            failed: state.failed,
            jobs: state.live(),
            late_ms: state.late_ms.unwrap_or(0),
        }
    }
}

impl TopicSamples {
    fn of(sampled: &VecDeque<TopicSample>) -> Self {
        let each = |number: fn(&TopicSample) -> u64| sampled.iter().map(number).collect();
        Self {
            attempts: each(|sample| sample.attempts),
            failed: each(|sample| sample.failed),
            jobs: each(|sample| sample.jobs),
            late_ms: each(|sample| sample.late_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded_and_end_with_the_latest_sample() {
        let samples = Samples::default();
        let (old, new) = (TopicName::new("old").unwrap(), TopicName::new("new").unwrap());
        for look in 0..70 {
            let sample = TopicSample { attempts: look, failed: 0, jobs: 0, late_ms: 0 };
            let names: &[&TopicName] = if look < 65 { &[&old] } else { &[&new, &old] };
            let sampled = names.iter().map(|name| ((*name).clone(), sample));
            samples.note(look * 10_000, sampled);
        }
        let all = samples.list(|_| true);
        assert_eq!((all.at_ms.len(), all.at_ms[0], all.at_ms[59]), (60, 100_000, 690_000));
        assert_eq!(all.topics["old"].attempts.first(), Some(&10));
        assert_eq!(all.topics["new"].attempts, [65, 66, 67, 68, 69]);
        assert_eq!(samples.list(|name| *name == new).topics.len(), 1);
        // From the last sample or the one before it, not from an old one.
        let rate = |now_ms| samples.rate(&old, now_ms, 79);
        assert_eq!((rate(700_000), rate(691_000)), (Some(1.0), Some(1.0)));
        assert_eq!((rate(760_000), samples.rate(&new, 650_000, 9)), (None, None));
        samples.note(700_000, std::iter::empty());
        assert!(samples.list(|_| true).topics.is_empty());
        samples.note(800_000, std::iter::empty());
        assert_eq!(samples.list(|_| true).at_ms, [800_000]);
    }

    #[tokio::test]
    async fn sampling_starts_with_the_first_request() {
        let samples = Samples::default();
        let wanted = tokio::time::timeout(Duration::from_millis(1), samples.requested());
        assert!(wanted.await.is_err());
        samples.note_request();
        samples.requested().await;
    }
}
