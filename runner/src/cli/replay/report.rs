//! What came of a replay, as text and as JSON.

use duebox_job::{JobId, TopicName};
use serde::Serialize;

use crate::cli::support::output;
use crate::observe::recording::{AttemptEnd, Departure, Recording};

/// What is shown of a recording without the seed of its snapshot.
const LACKS_SEED: &str =
    "an older duebox recorded it, without the seed of its snapshot; the fuel may differ";

/// What came of one replay; the JSON output.
#[derive(Serialize)]
pub(super) struct ReplayReport {
    topic: String,
    id: String,
    attempt: u32,
    died_at: String,
    recorded: AttemptEnd,
    /// How it ended now; `None` if it cannot be replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<AttemptEnd>,
    same: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    departures: Vec<Departure>,
    /// The module is not the recorded one.
    pub(super) is_other_module: bool,
    /// The handler starts from a snapshot, and the recording has no seed of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) lacks_seed: bool,
    /// Config values that the attempt read and that are not set now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing_config: Vec<String>,
    pub(super) log: Vec<String>,
    /// The result of `--requeue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) requeued: Option<&'static str>,
}

/// What came of several replays; the last line of the JSON output.
#[derive(Default, Serialize)]
pub(super) struct ReplaySummary {
    replayed: u64,
    same: u64,
    acked: u64,
    other: u64,
    /// Attempts that read too much to be recorded.
    not_replayable: u64,
    requeued: u64,
}

impl ReplayReport {
    pub(super) fn new(
        topic: &TopicName,
        id: &JobId,
        died_at_ms: u64,
        recording: &Recording,
    ) -> Self {
        Self {
            topic: topic.to_string(),
            id: id.to_string(),
            attempt: recording.attempt,
            died_at: output::time(died_at_ms),
            recorded: recording.end.clone(),
            now: None,
            same: false,
            departures: Vec::new(),
            is_other_module: false,
            lacks_seed: false,
            missing_config: Vec::new(),
            log: Vec::new(),
            requeued: None,
        }
    }

    pub(super) fn end(&mut self, end: AttemptEnd, departures: Vec<Departure>) {
        self.same = end == self.recorded && departures.is_empty();
        self.now = Some(end);
        self.departures = departures;
    }

    /// Whether it reached the recorded end, with the same requests and the same figures.
    pub(super) fn is_same(&self) -> bool {
        self.same
    }

    /// Whether the job is acked now.
    pub(super) fn is_acked(&self) -> bool {
        self.now.as_ref().is_some_and(|end| end.verdict == "ack")
    }

    pub(super) fn is_fine(&self) -> bool {
        self.same || self.is_acked()
    }

    pub(super) fn describe(&self) -> String {
        let mut fields = vec![
            ("job", format!("{} {}, attempt {}", self.topic, self.id, self.attempt)),
            ("died", self.died_at.clone()),
            ("recorded", self.recorded.to_string()),
        ];
        match &self.now {
            Some(end) => fields.push(("now", end.to_string())),
            None => {
                fields.push(("now", "it read more than a recording holds (256 KiB)".to_owned()))
            }
        }
        for Departure { request, recorded, now } in &self.departures {
            fields.push(("departs", format!("at request {request}\n- {recorded}\n+ {now}")));
        }
        for name in &self.missing_config {
            fields.push(("config", format!("{name} was read and is not set now")));
        }
        if self.lacks_seed {
            fields.push(("seed", LACKS_SEED.to_owned()));
        }
        fields.extend(self.log.iter().map(|line| ("log", line.clone())));
        let result = match (self.same, self.is_acked()) {
            (true, _) => "the recorded end, with the same figures",
            (false, true) => "acked now",
            (false, false) if self.now.is_none() => "not replayable",
            (false, false) => "another end",
        };
        let module = if self.is_other_module { ", on another module" } else { "" };
        fields.push(("result", format!("{result}{module}")));
        if let Some(word) = self.requeued {
            fields.push(("requeue", word.to_owned()));
        }
        output::fields(&fields)
    }
}

impl ReplaySummary {
    pub(super) fn add(&mut self, report: &ReplayReport) {
        self.replayed += 1;
        let count = match report {
            report if report.now.is_none() => &mut self.not_replayable,
            report if report.same => &mut self.same,
            report if report.is_acked() => &mut self.acked,
            _ => &mut self.other,
        };
        *count += 1;
        self.requeued += u64::from(report.requeued == Some("ok"));
    }

    pub(super) fn is_fine(&self) -> bool {
        self.other == 0 && self.not_replayable == 0
    }

    pub(super) fn describe(&self) -> String {
        let Self { replayed, same, acked, other, not_replayable, requeued } = self;
        let mut text = format!(
            "replayed {replayed}: {same} with the recorded end, {acked} acked now, {other} with another end"
        );
        if *not_replayable > 0 {
            text.push_str(&format!(", {not_replayable} not replayable"));
        }
        if *requeued > 0 {
            text.push_str(&format!("; requeued {requeued}"));
        }
        text
    }
}
