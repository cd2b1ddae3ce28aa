//! `GET /v1/history`: what happened recently, from memory: attempts by outcome and class, lateness, run times, waiting
//! jobs and Redis' round trips; and why attempts failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use duebox_job::{FailureClass, TopicName};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use super::leases::duration;
use super::topics::{own_status, topic_statuses};
use crate::auth::tokens::Scope;
use crate::http::access::{Caller, RequiredScope};
use crate::http::params::Params;
use crate::http::problem::Problem;
use crate::http::state::{ServerState, known};
use crate::observe::counters::{LATE, RAN};
use crate::observe::failure_reasons::FailureReason;
use crate::observe::history::{Sample, Window};
use crate::observe::tally::Tally;
use crate::report::status::Status;

/// The longest span.
const SPAN_MAX_MS: u64 = 48 * 3_600_000;
/// The most steps of a response.
const STEPS_MAX: usize = 720;
/// Steps of a topic in the list by topic.
const TOPIC_STEPS: usize = 30;
/// The most reasons of a response.
const REASONS_MAX: usize = 100;
/// How long reports of other daemons are waited for.
const REPORTS_WITHIN: Duration = Duration::from_secs(1);

/// Parameters of the history.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HistoryParams {
    /// Only this topic; all topics by default.
    topic: Option<String>,
    /// How far to look back: a number with `s`, `m` or `h`, at most 48h; default: 10m.
    span: Option<String>,
    /// Maximum number of steps, 1 to 720; default: 120.
    #[param(minimum = 1, maximum = 720)]
    steps: Option<u32>,
    /// True to add the attempts of each topic.
    topics: Option<bool>,
    /// True to add the histograms of lateness and run times.
    buckets: Option<bool>,
}

/// What happened recently. Each list has one value for each step, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct HistoryResponse {
    /// When the response was made, unix ms by this daemon's clock.
    now_ms: u64,
    /// Since when the steps are known, by the same clock: what lies before was not recorded, or of single topics
    /// was dropped for want of space.
    since_ms: u64,
    /// The start of the first step.
    from_ms: u64,
    /// The length of a step in ms. The last step is not over.
    step_ms: u64,
    /// Acked attempts.
    acked: Vec<u32>,
    /// Failed attempts.
    failed: Vec<u32>,
    /// Snoozed attempts.
    snoozed: Vec<u32>,
    /// Jobs that became dead.
    dead: Vec<u32>,
    /// Failed attempts by class; only classes that occurred.
    #[schema(value_type = std::collections::HashMap<String, Vec<u32>>)]
    classes: BTreeMap<&'static str, Vec<u32>>,
    /// The time from due time to start in ms; null in steps without attempts.
    late: Quantiles,
    /// The run time of attempts in ms.
    ran: Quantiles,
    /// Jobs that wait, at most in the step; null in steps in which they were not counted.
    waiting: Vec<Option<u32>>,
    /// How long the oldest ready job had been due, in ms.
    overdue_ms: Vec<Option<u32>>,
    /// The longest round trip of this daemon to Redis in ms; null without one.
    redis_ms: Vec<Option<f64>>,
    /// 1 in steps in which Redis did not answer, else 0.
    redis_away: Vec<u8>,
    /// Why attempts failed in the running daemons, the most recent first; at most 100.
    failures: Vec<TopicFailure>,
    /// Attempts of each topic that had some.
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<TopicSteps>,
}

/// Quantiles of times, interpolated from a histogram.
#[derive(Default, Serialize, ToSchema)]
struct Quantiles {
    /// Half of the attempts took at most so long.
    p50_ms: Vec<Option<f64>>,
    /// 99 of 100 attempts took at most so long.
    p99_ms: Vec<Option<f64>>,
    /// With `buckets`: the upper bounds of the histogram's buckets. One more bucket has what is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds_ms: Option<Vec<f64>>,
    /// With `buckets`: the attempts of each step by bucket; an empty list in steps without attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Vec<Vec<u32>>>,
}

/// Why attempts of a topic failed.
#[derive(Serialize, ToSchema)]
struct TopicFailure {
    /// The topic.
    topic: String,
    /// The number of daemons in which it occurred.
    runners: usize,
    /// The reason.
    #[serde(flatten)]
    reason: FailureReason,
}

/// Attempts by topic, in fewer steps.
#[derive(Serialize, ToSchema)]
struct TopicSteps {
    /// The start of the first step.
    from_ms: u64,
    /// The length of a step in ms.
    step_ms: u64,
    /// The attempts and the failed attempts of each step, by topic.
    #[schema(value_type = std::collections::HashMap<String, Vec<Vec<u32>>>)]
    topics: BTreeMap<String, Vec<(u32, u32)>>,
}

/// Get what happened recently
///
/// From the start of this daemon, of all daemons on this Redis as far as they report: steps of one
/// second reach back ten minutes, of ten seconds six hours, of one minute two days. With a token,
/// only of the topics it covers. Attempts of pull consumers count if they were settled over HTTP; their
/// lateness and run times are not known.
#[utoipa::path(get, path = "/v1/history", tag = "topics", params(HistoryParams), responses((status = 200, body = HistoryResponse)))]
pub(super) async fn show(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    Params(params): Params<HistoryParams>,
) -> Result<Json<HistoryResponse>, Problem> {
    let (span_ms, steps) = params.read()?;
    let topic = params.topic.as_deref().map(topic_name).transpose()?;
    if let Some(name) = &topic {
        caller.check(RequiredScope::Any, Some(name))?;
        known(&server, name).await?;
    }
    let sees = |name: &TopicName| match &topic {
        Some(topic) => name == topic,
        None => caller.sees(name),
    };
    let (history, now_ms) = (&server.recorder.history, server.recorder.now_ms());
    let is_all = topic.is_none() && caller.sees_all();
    let window = history.window(now_ms, span_ms, steps, !is_all);
    let mut samples = if is_all { history.total(window) } else { history.sum(window, sees) };
    if !is_all {
        // Redis is the same for all topics.
        for (sample, total) in samples.iter_mut().zip(history.total(window)) {
            (sample.redis_us, sample.is_away) = (total.redis_us, total.is_away);
        }
    }
    let topics = (params.topics == Some(true)).then(|| {
        let window = history.window(now_ms, span_ms, TOPIC_STEPS, true);
        let all = history.by_topic(window);
        let seen = all.into_iter().filter(|(name, _)| sees(name));
        let topics = seen.map(|(name, steps)| (name.to_string(), steps)).collect();
        TopicSteps { from_ms: window.from_ms, step_ms: window.step_ms, topics }
    });
    // Reasons and ids are of jobs, which need the scope read.
    let failures = match caller.check(RequiredScope::One(Scope::Read), None) {
        Ok(()) => failures(&server, topic.as_ref(), sees).await,
        Err(_) => Vec::new(),
    };
    let times = (now_ms, history.known_from_ms(window, !is_all));
    let mut response = HistoryResponse::of(times, window, &samples);
    if params.buckets == Some(true) {
        response.late.add_buckets(&samples, &LATE, Tally::late_counts);
        response.ran.add_buckets(&samples, &RAN, Tally::ran_counts);
    }
    Ok(Json(HistoryResponse { failures, topics, ..response }))
}

fn topic_name(text: &str) -> Result<TopicName, Problem> {
    TopicName::new(text).map_err(|error| {
        Problem::bad(format!("the topic is invalid: {error}"), "send the name of a topic")
            .of("topic")
    })
}

/// Why attempts failed, by topic; without Redis only what this daemon knows.
async fn failures(
    server: &ServerState,
    only: Option<&TopicName>,
    sees: impl Fn(&TopicName) -> bool,
) -> Vec<TopicFailure> {
    let reports: Vec<Status> = match timeout(REPORTS_WITHIN, topic_statuses(server, only)).await {
        Ok(Ok(reports)) => reports,
        Ok(Err(_)) | Err(_) => vec![own_status(server, only)],
    };
    let mut all: Vec<TopicFailure> = Vec::new();
    for status in &reports {
        let served = status.topics.iter().map(|topic| (&topic.topic, &topic.failures));
        let pulled = status.pulled.iter().map(|topic| (&topic.topic, &topic.failures));
        let seen = served
            .chain(pulled)
            .filter(|(topic, _)| TopicName::new(topic).is_ok_and(|name| sees(&name)));
        let mut counted = BTreeSet::new();
        for (topic, reason) in seen.flat_map(|(topic, all)| all.iter().map(move |one| (topic, one)))
        {
            let at = add(&mut all, topic, reason);
            all[at].runners += usize::from(counted.insert(at));
        }
    }
    all.sort_by_key(|failure| std::cmp::Reverse(failure.reason.last_ms));
    all.truncate(REASONS_MAX);
    all
}

/// Adds a reason to those that differ from it only in numbers and ids; returns its place.
fn add(all: &mut Vec<TopicFailure>, topic: &str, reason: &FailureReason) -> usize {
    let is_same = |known: &TopicFailure| known.topic == topic && known.reason.is_same(reason);
    if let Some(at) = all.iter().position(is_same) {
        all[at].reason.merge(reason);
        return at;
    }
    all.push(TopicFailure { topic: topic.to_owned(), runners: 0, reason: reason.clone() });
    all.len() - 1
}

impl HistoryParams {
    /// The span in ms and the number of steps.
    fn read(&self) -> Result<(u64, usize), Problem> {
        let text = self.span.as_deref().unwrap_or("10m");
        let span_ms = u64::try_from(duration(text, "span")?.as_millis()).ok();
        let span_ms = span_ms.filter(|ms| (1_000..=SPAN_MAX_MS).contains(ms)).ok_or_else(|| {
            Problem::bad("the span must be from 1s to 48h", "send for example 10m, 6h or 48h")
                .of("span")
        })?;
        let steps = self.steps.map_or(120, |steps| steps as usize);
        if !(1..=STEPS_MAX).contains(&steps) {
            return Err(Problem::bad(
                "the steps must be from 1 to 720",
                "send a number in this range",
            )
            .of("steps"));
        }
        Ok((span_ms, steps))
    }
}

impl HistoryResponse {
    fn of((now_ms, since_ms): (u64, u64), window: Window, samples: &[Sample]) -> Self {
        let counts = |count: fn(&Sample) -> u32| samples.iter().map(count).collect::<Vec<u32>>();
        let class = |class: FailureClass| -> Vec<u32> {
            samples.iter().map(|sample| sample.tally.of_class(class)).collect()
        };
        let classes = FailureClass::ALL.into_iter().map(|one| (one.name(), class(one)));
        let times = |time: fn(&Sample) -> Option<f64>| {
            samples.iter().map(|sample| time(sample).map(rounded)).collect::<Vec<_>>()
        };
        let counted = |count: fn(&Sample) -> u32| {
            let known = |sample: &Sample| sample.is_counted.then(|| count(sample));
            samples.iter().map(known).collect::<Vec<_>>()
        };
        Self {
            now_ms,
            since_ms,
            from_ms: window.from_ms,
            step_ms: window.step_ms,
            acked: counts(|sample| sample.tally.acked()),
            failed: counts(|sample| sample.tally.failed()),
            snoozed: counts(|sample| sample.tally.snoozed()),
            dead: counts(|sample| sample.tally.dead()),
            classes: classes.filter(|(_, counts)| counts.iter().any(|count| *count > 0)).collect(),
            late: Quantiles {
                p50_ms: times(|sample| sample.tally.late_ms(0.5)),
                p99_ms: times(|sample| sample.tally.late_ms(0.99)),
                ..Quantiles::default()
            },
            ran: Quantiles {
                p50_ms: times(|sample| sample.tally.ran_ms(0.5)),
                p99_ms: times(|sample| sample.tally.ran_ms(0.99)),
                ..Quantiles::default()
            },
            waiting: counted(|sample| sample.waiting),
            overdue_ms: counted(|sample| sample.overdue_ms),
            redis_ms: times(|sample| {
                (sample.redis_us > 0).then(|| f64::from(sample.redis_us) / 1_000.0)
            }),
            redis_away: samples.iter().map(|sample| u8::from(sample.is_away)).collect(),
            failures: Vec::new(),
            topics: None,
        }
    }
}

impl Quantiles {
    /// Adds the histogram of each step.
    fn add_buckets(&mut self, samples: &[Sample], bounds: &[Duration], of: fn(&Tally) -> &[u32]) {
        let counts = samples.iter().map(|sample| match of(&sample.tally) {
            none if none.iter().all(|count| *count == 0) => Vec::new(),
            counts => counts.to_vec(),
        });
        self.counts = Some(counts.collect());
        self.bounds_ms = Some(bounds.iter().map(|bound| bound.as_secs_f64() * 1_000.0).collect());
    }
}

/// Three digits: more would cost bytes and tell nothing.
fn rounded(value: f64) -> f64 {
    let digits = 2 - value.abs().max(1e-3).log10().floor() as i32;
    let factor = 10f64.powi(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let all = [0.0, 0.123_456, 1.234, 12.345, 123.456, 123_456.0].map(rounded);
        assert_eq!(all, [0.0, 0.123, 1.23, 12.3, 123.0, 123_000.0]);
    }

    #[test]
    fn a_step_has_a_count_for_each_bucket_and_without_attempts_none() {
        let mut tally = Tally::default();
        tally.add(3, 2);
        tally.add(20, 1);
        let samples = [Sample::default(), Sample::of(tally)];
        let mut late = Quantiles::default();
        late.add_buckets(&samples, &LATE, Tally::late_counts);
        let bounds = late.bounds_ms.unwrap();
        assert_eq!((bounds.len(), bounds[0], bounds[16]), (17, 0.5, 3_600_000.0));
        let counts = late.counts.unwrap();
        assert_eq!((counts[0].len(), counts[1].len()), (0, 18));
        assert_eq!((counts[1][0], counts[1][17], counts[1][1..17].iter().sum()), (2, 1, 0_u32));
    }

    #[test]
    fn a_span_and_a_number_of_steps_are_bounded() {
        let read = |span: Option<&str>, steps| {
            let span = span.map(str::to_owned);
            let (topic, topics, buckets) = (None, None, None);
            HistoryParams { topic, span, steps, topics, buckets }.read().ok()
        };
        assert_eq!(read(None, None), Some((600_000, 120)));
        assert_eq!(read(Some("48h"), Some(720)), Some((48 * 3_600_000, 720)));
        assert_eq!((read(Some("49h"), None), read(Some("1ms"), None)), (None, None));
        assert_eq!((read(Some("soon"), None), read(None, Some(0))), (None, None));
    }
}
