//! One moment of a job's life, as it is shown: of an event, of a record in Redis, or of an attempt that this daemon
//! remembers.

use duebox_queue::StoredEvent;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::observe::recent_attempts::{FailedAttempt, RecentAttempt};

/// Clocks of daemons and of Redis differ by less than this; ends of an attempt that are further apart are two.
const CLOCKS_MS: u64 = 5_000;
/// The events that end an attempt.
const ENDS: [&str; 8] =
    ["acked", "retried", "dead", "discarded", "snoozed", "released", "superseded", "cancelled"];

/// One moment of a job's life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = JobMoment)]
pub(crate) struct Moment {
    /// Unix ms by the clock of Redis; of an event, by that of the daemon that reported it.
    pub(crate) at_ms: u64,
    /// What happened or is to happen: `pushed`, `due`, `started`, the event that ended an attempt (`acked`,
    /// `retried`, `dead`, `snoozed` …), `next attempt`, `lease ends`, `successor due`, `id free`, and other
    /// events of the job.
    pub(crate) event: String,
    /// The attempt, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u64>,
    /// The failure class, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runner: Option<String>,
    /// The module that ran it, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// How long the attempt ran, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wall_ms: Option<f64>,
    /// The last lines of the attempt's log, if it failed and they are kept: those of the last attempt by Redis,
    /// those of earlier ones by the daemon that ran them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<String>,
    /// True if earlier lines of the log are not kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) log_cut: bool,
}

impl Moment {
    pub(super) fn new(at_ms: u64, event: &str) -> Self {
        Self { at_ms, event: event.to_owned(), ..Self::default() }
    }

    /// The end of an attempt, as it is recorded with the job.
    pub(super) fn recorded(at_ms: u64, event: &str, info: &Value) -> Self {
        let text = |name: &str| info[name].as_str().map(str::to_owned);
        Self {
            attempt: info["attempt"].as_u64(),
            class: text("class"),
            reason: text("reason"),
            runner: text("runner"),
            digest: text("digest"),
            wall_ms: info["wall_ms"].as_f64(),
            log: lines(&info["log"]),
            ..Self::new(at_ms, event)
        }
    }

    pub(super) fn of_event(event: &StoredEvent) -> Option<Self> {
        let some = |name: &str| Some(event.field(name).to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            attempt: event.field("attempt").parse().ok(),
            class: some("class"),
            digest: some("digest"),
            ..Self::new(event.field("at").parse().ok()?, event.field("event"))
        })
    }

    /// The end of an attempt that this daemon remembers.
    pub(super) fn remembered(failed: &FailedAttempt, runner: &str) -> Option<Self> {
        let RecentAttempt { at_ms, attempt, settled, class, reason, digest, wall_ms, .. } =
            &failed.attempt;
        let event = match *settled {
            "done" => "acked",
            "retry" => "retried",
            "lost" => return None,
            same => same,
        };
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            attempt: Some(u64::from(*attempt)),
            class: some(class),
            reason: some(reason),
            runner: some(runner),
            digest: digest.clone(),
            wall_ms: Some(*wall_ms),
            log: failed.log.clone(),
            log_cut: failed.is_cut,
            ..Self::new(*at_ms, event)
        })
    }

    /// Takes the details of the same moment that this one has not.
    pub(super) fn complete(&mut self, other: Self) {
        self.class = self.class.take().or(other.class);
        self.reason = self.reason.take().or(other.reason);
        self.runner = self.runner.take().or(other.runner);
        self.digest = self.digest.take().or(other.digest);
        self.wall_ms = self.wall_ms.or(other.wall_ms);
        if self.log.is_empty() {
            (self.log, self.log_cut) = (other.log, other.log_cut);
        }
    }

    /// True if it ends an attempt.
    fn is_end(&self) -> bool {
        ENDS.contains(&self.event.as_str())
    }

    /// True if both are the end of one attempt.
    pub(super) fn ends_same_attempt(&self, other: &Self) -> bool {
        self.is_end() && self.attempt == other.attempt && self.event == other.event
    }

    /// True if both are the end of one run of an attempt: after a requeue a job has attempts of the same numbers again.
    pub(super) fn ends_same_run(&self, other: &Self) -> bool {
        self.ends_same_attempt(other) && self.at_ms.abs_diff(other.at_ms) < CLOCKS_MS
    }

    /// By time. Within a millisecond an attempt comes before the next one, and its start before its end.
    pub(super) fn order(&self) -> (u64, Option<u64>, bool) {
        (self.at_ms, self.attempt, self.is_end())
    }
}

fn lines(log: &Value) -> Vec<String> {
    let lines = log.as_array().into_iter().flatten();
    lines.filter_map(|line| Some(line.as_str()?.to_owned())).collect()
}
