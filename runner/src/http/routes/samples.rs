//! `/v1/samples`: how topics did in the last ten minutes, so that who opens the page sees where things come
//! from.
//!
//! Every ten seconds each topic is looked at over the server's own connection, off the way of the jobs; what
//! was seen is kept in memory, for a bounded time and a bounded number of topics. Jobs are told as sums, so
//! that a rate is the difference of any two. When nobody has asked after topics for an hour, nobody looks: an
//! idle daemon costs Redis nothing for it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::{Extension, Json};
use duebox_job::TopicName;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;
use tracing::debug;
use utoipa::ToSchema;

use super::topics::{self, TopicState};
use crate::http::access::Caller;
use crate::http::state::ServerState;

/// How often topics are looked at.
const EVERY: Duration = Duration::from_secs(10);
/// How long they are looked at after somebody asked.
const WANTED_FOR: Duration = Duration::from_secs(3_600);
/// After such a gap what was seen before is forgotten.
const GAP_MS: u64 = 60_000;
/// Looks that are kept.
const KEPT: usize = 60;
/// Topics that are kept.
const TOPICS_MAX: usize = 1_000;

/// What was seen of all topics.
#[derive(Default)]
pub(crate) struct Samples {
    looks: Mutex<Looks>,
    asked: Notify,
}

#[derive(Default)]
struct Looks {
    asked_at: Option<Instant>,
    at_ms: VecDeque<u64>,
    topics: BTreeMap<TopicName, VecDeque<Sample>>,
}

/// What was seen of one topic at one look.
#[derive(Clone, Copy)]
struct Sample {
    attempts: u64,
    failed: u64,
    jobs: u64,
    late_ms: u64,
}

/// How topics did lately. Lists of a topic end with the last look; a topic that is new has shorter ones.
#[derive(Serialize, ToSchema)]
pub(super) struct SampleList {
    /// How far the looks lie apart.
    every_ms: u64,
    /// When each look was, the oldest first; unix ms by Redis' clock.
    at_ms: Vec<u64>,
    /// What was seen of each topic.
    topics: BTreeMap<String, TopicSamples>,
}

/// What was seen of a topic, look by look.
#[derive(Default, Serialize, ToSchema)]
struct TopicSamples {
    /// Attempts that were run until then, by all daemons.
    attempts: Vec<u64>,
    /// Of these, those that failed.
    failed: Vec<u64>,
    /// Live jobs.
    jobs: Vec<u64>,
    /// How long the oldest ready job had been due; 0 if there was none.
    late_ms: Vec<u64>,
}

/// How topics did lately
///
/// A look each ten seconds, for ten minutes, as long as somebody asks after topics at least once an hour;
/// with a token, at the topics it covers.
#[utoipa::path(get, path = "/v1/samples", tag = "topics", responses((status = 200, body = SampleList)))]
pub(super) async fn list(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
) -> Json<SampleList> {
    server.samples.are_wanted();
    Json(server.samples.list(|topic| caller.sees(topic)))
}

/// Looks at all topics again and again while somebody wants to know, for ever.
pub(in crate::http) async fn keep(server: ServerState) -> anyhow::Result<()> {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        server.samples.wanted().await;
        match topics::states(&server, |_| true).await {
            Ok((now_ms, states)) => {
                let seen = states.iter().map(|(name, state)| (name.clone(), Sample::of(state)));
                server.samples.note(now_ms, seen);
            }
            Err(problem) => debug!("topics were not looked at: {}", problem.detail()),
        }
    }
}

impl Samples {
    /// Somebody asks after topics.
    pub(super) fn are_wanted(&self) {
        let before = self.looks().asked_at.replace(Instant::now());
        if before.is_none_or(|before| before.elapsed() >= WANTED_FOR) {
            self.asked.notify_one();
        }
    }

    /// Waits until somebody has asked lately.
    async fn wanted(&self) {
        let is_wanted = || self.looks().asked_at.is_some_and(|at| at.elapsed() < WANTED_FOR);
        while !is_wanted() {
            self.asked.notified().await;
        }
    }

    fn note(&self, now_ms: u64, samples: impl Iterator<Item = (TopicName, Sample)>) {
        let mut looks = self.looks();
        if looks.at_ms.back().is_some_and(|last| last + GAP_MS < now_ms) {
            looks.at_ms.clear();
            looks.topics.clear();
        }
        push(&mut looks.at_ms, now_ms);
        let mut before = std::mem::take(&mut looks.topics);
        for (name, sample) in samples.take(TOPICS_MAX) {
            let mut seen = before.remove(&name).unwrap_or_default();
            push(&mut seen, sample);
            looks.topics.insert(name, seen);
        }
    }

    /// Attempts a second between the last look and now, or the look before where the last is too new; none if
    /// nobody has looked lately.
    pub(super) fn rate(&self, topic: &TopicName, now_ms: u64, attempts: u64) -> Option<f64> {
        let looks = self.looks();
        let seen = looks.topics.get(topic)?;
        let pairs = looks.at_ms.iter().rev().zip(seen.iter().rev());
        let is_far = |at_ms: u64| now_ms.saturating_sub(at_ms) >= EVERY.as_millis() as u64 / 2;
        let (at_ms, sample) = pairs.take(2).find(|(at_ms, _)| is_far(**at_ms))?;
        let ms = now_ms.saturating_sub(*at_ms);
        let ran = attempts.saturating_sub(sample.attempts);
        (ms <= GAP_MS).then(|| ran as f64 * 1_000.0 / ms as f64)
    }

    fn list(&self, sees: impl Fn(&TopicName) -> bool) -> SampleList {
        let looks = self.looks();
        let seen = looks.topics.iter().filter(|(name, _)| sees(name));
        SampleList {
            every_ms: EVERY.as_millis() as u64,
            at_ms: looks.at_ms.iter().copied().collect(),
            topics: seen.map(|(name, seen)| (name.to_string(), TopicSamples::of(seen))).collect(),
        }
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(new);
}

impl Sample {
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
    fn of(seen: &VecDeque<Sample>) -> Self {
        let each = |number: fn(&Sample) -> u64| seen.iter().map(number).collect();
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
    fn lists_are_bounded_and_end_with_the_last_look() {
        let samples = Samples::default();
        let (old, new) = (TopicName::new("old").unwrap(), TopicName::new("new").unwrap());
        for look in 0..70 {
            let sample = Sample { attempts: look, failed: 0, jobs: 0, late_ms: 0 };
            let names: &[&TopicName] = if look < 65 { &[&old] } else { &[&new, &old] };
            let seen = names.iter().map(|name| ((*name).clone(), sample));
            samples.note(look * 10_000, seen);
        }
        let all = samples.list(|_| true);
        assert_eq!((all.at_ms.len(), all.at_ms[0], all.at_ms[59]), (60, 100_000, 690_000));
        assert_eq!(all.topics["old"].attempts.first(), Some(&10));
        assert_eq!(all.topics["new"].attempts, [65, 66, 67, 68, 69]);
        assert_eq!(samples.list(|name| *name == new).topics.len(), 1);
        // From the last look, or from the one before it; and not from one of long ago.
        let rate = |now_ms| samples.rate(&old, now_ms, 79);
        assert_eq!((rate(700_000), rate(691_000)), (Some(1.0), Some(1.0)));
        assert_eq!((rate(760_000), samples.rate(&new, 650_000, 9)), (None, None));
        samples.note(700_000, std::iter::empty());
        assert!(samples.list(|_| true).topics.is_empty());
        samples.note(800_000, std::iter::empty());
        assert_eq!(samples.list(|_| true).at_ms, [800_000]);
    }

    #[tokio::test]
    async fn nobody_looks_before_somebody_asks() {
        let samples = Samples::default();
        let wanted = tokio::time::timeout(Duration::from_millis(1), samples.wanted());
        assert!(wanted.await.is_err());
        samples.are_wanted();
        samples.wanted().await;
    }
}
