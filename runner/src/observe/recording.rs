//! What an attempt read from the host: recorded while it runs, stored with a dead job, and given back by a
//! replay. Times, random bytes, HTTP responses and the store's answers are kept as they came; secrets are
//! replaced by placeholders. Of the random bytes that were drawn while the handler's snapshot was taken, the seed is
//! kept.

mod calls;
mod recorder;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, JobId, Outcome, TopicName};
use duebox_sandbox::{Digest, Invocation, RunReport, SnapshotSeed};
use serde::{Deserialize, Serialize};

use self::calls::Call;
pub use self::recorder::Recorder;
pub use self::replay::{Departure, Replay};
use super::redaction::Redaction;
use crate::millis::millis;

/// The version of the format.
const VERSION: u32 = 1;
/// Bytes of what an attempt reads that are recorded at most. Of an attempt that reads more, only its end is.
pub const RECORDING_BYTES_MAX: usize = 256 << 10;

/// What an attempt read, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    version: u32,
    /// The module that ran, 64 hex digits.
    pub digest: String,
    /// The seed of its snapshot. `None` for a module without one, and in recordings of versions that kept no seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_seed: Option<SnapshotSeed>,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The attempts that the job had.
    pub max_attempts: u32,
    /// When the job fell due, in Unix milliseconds.
    pub due_at_ms: u64,
    /// When the attempt was recorded, in Unix milliseconds.
    pub recorded_at_ms: u64,
    /// The time that the attempt could take, in milliseconds.
    pub ttr_ms: u64,
    /// The job's headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How it ended.
    pub end: AttemptEnd,
    /// The names of the config values that it read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub config: BTreeSet<String>,
    /// It read more than is recorded: it cannot be replayed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_too_large: bool,
    /// What it read, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
}

/// How an attempt ended, in figures that a replay repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// `ack`, `snooze`, `host_fault` or the failure class.
    pub verdict: String,
    /// The reason; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The fuel it burnt; `None` if its topic has no fuel limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Calls of imports.
    pub host_calls: u64,
    /// Bytes that the host wrote into the guest's memory.
    pub bytes_in: u64,
    /// Bytes that the host read from the guest.
    pub bytes_out: u64,
}

impl AttemptEnd {
    /// The end of a run, without secrets.
    pub fn of(report: &RunReport, redaction: &Redaction) -> Self {
        let (verdict, reason) = match &report.outcome {
            Outcome::Acked => ("ack", ""),
            Outcome::Snoozed { reason, .. } => ("snooze", reason.as_str()),
            Outcome::HostFault(reason) => ("host_fault", reason.as_str()),
            Outcome::Failed(failure) => (failure.class.name(), failure.reason.as_str()),
        };
        Self {
            verdict: verdict.to_owned(),
            reason: redaction.redact_text(reason),
            fuel: report.fuel_used,
            host_calls: report.host_calls,
            bytes_in: report.bytes_in,
            bytes_out: report.bytes_out,
        }
    }

    /// Whether it ran out of time.
    pub fn is_timeout(&self) -> bool {
        self.verdict == FailureClass::Timeout.name()
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict)?;
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        if let Some(fuel) = self.fuel {
            write!(f, ", {fuel} fuel")?;
        }
        write!(f, ", {} host calls", self.host_calls)
    }
}

impl Recording {
    /// The recording of an attempt that has ended.
    pub fn new(
        job: &Invocation,
        (digest, snapshot_seed): (Digest, Option<SnapshotSeed>),
        recorded_at_ms: u64,
        (recorder, report): (&Recorder, &RunReport),
        redaction: &Redaction,
    ) -> Self {
        let (calls, config, is_too_large) = recorder.take();
        let redacted = calls
            .into_iter()
            .map(|call| call.map(&|bytes: &[u8]| redaction.redact(bytes).into_owned()));
        let header =
            |(name, value): (&String, &String)| (name.clone(), redaction.redact_text(value));
        Self {
            version: VERSION,
            digest: digest.to_string(),
            snapshot_seed,
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            due_at_ms: job.due_at_ms,
            recorded_at_ms,
            ttr_ms: millis(job.ttr),
            headers: job.headers.iter().map(header).collect(),
            end: AttemptEnd::of(report, redaction),
            config,
            is_too_large,
            calls: redacted.collect(),
        }
    }

    /// The stored form.
    pub fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and tables: JSON can hold all of it.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the stored form, with the secrets in place of their placeholders.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(bytes: &[u8], redaction: &Redaction) -> Result<Self, RecordingError> {
        let recording: Self = serde_json::from_slice(bytes)?;
        if recording.version != VERSION {
            return Err(RecordingError::Version { found: recording.version });
        }
        let restored = |call: Call| call.map(&|bytes: &[u8]| redaction.restore(bytes).into_owned());
        Ok(Self { calls: recording.calls.into_iter().map(restored).collect(), ..recording })
    }

    /// The job as its attempt saw it.
    pub fn invocation(
        &self,
        id: JobId,
        topic: TopicName,
        payload: Bytes,
        redaction: &Redaction,
    ) -> Invocation {
        let header =
            |(name, value): (&String, &String)| (name.clone(), redaction.restore_text(value));
        Invocation {
            id,
            topic,
            payload,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            due_at_ms: self.due_at_ms,
            headers: self.headers.iter().map(header).collect(),
            ttr: Duration::from_millis(self.ttr_ms),
            span: None,
        }
    }
}

/// Why a recording is not read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It is not JSON of this form.
    #[error("it is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of duebox wrote it.
    #[error("it has version {found} of the format; this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
}

#[cfg(test)]
mod tests {
    use duebox_job::Failure;
    use duebox_sandbox::{
        HostAnswer, HostClock, HostRequest, HttpResponse, Interceptor, KvEntry, KvError,
    };

    use super::*;

    const GET: HostRequest<'_> =
        HostRequest::Http { method: "GET", url: "http://a/?key=hunter2", body: b"" };

    fn job() -> Invocation {
        Invocation {
            id: JobId::from_redis("42"),
            topic: TopicName::new("work").unwrap(),
            payload: Bytes::new(),
            attempt: 3,
            max_attempts: 3,
            due_at_ms: 5,
            headers: BTreeMap::from([("by".to_owned(), "hunter2".to_owned())]),
            ttr: Duration::from_secs(2),
            span: None,
        }
    }

    fn redaction() -> Redaction {
        Redaction::new([(&"key".to_owned(), &"hunter2".to_owned())])
    }

    fn stored(recorder: &Recorder) -> Vec<u8> {
        let failure = Failure {
            class: FailureClass::Nack,
            reason: "hunter2 failed".to_owned(),
            retry_after: None,
        };
        let report = RunReport::without_guest(Outcome::Failed(failure));
        let module = (Digest::of(b"module"), None);
        Recording::new(&job(), module, 1_000, (recorder, &report), &redaction()).to_json()
    }

    /// Asks and answers as a run does.
    fn record(recorder: &Recorder, request: &HostRequest<'_>, answer: &HostAnswer) {
        assert_eq!(recorder.answer(request), None);
        recorder.answered(request, answer);
    }

    #[test]
    fn a_replay_gives_back_what_was_recorded_in_its_order() {
        let recorder = Recorder::default();
        let body = Bytes::from_static(b"\xffhunter2");
        let response = HttpResponse { status: 200, headers: "a: hunter2\n".into(), body };
        let entry = KvEntry { value: "v".into(), revision: 7 };
        let calls = [
            (HostRequest::Clock(HostClock::Now), HostAnswer::Clock(11)),
            (HostRequest::Random(3), HostAnswer::Random(Bytes::from_static(b"\x00\xff1"))),
            (GET, HostAnswer::Http(Ok(response))),
            (HostRequest::KvGet(b"k"), HostAnswer::KvEntry(Ok(Some(entry)))),
            (
                HostRequest::KvAdd { key: b"n", delta: -2 },
                HostAnswer::KvSum(Err(KvError::NotANumber)),
            ),
            (HostRequest::KvDelete(b"k"), HostAnswer::KvDone(Ok(true))),
            (HostRequest::Clock(HostClock::Now), HostAnswer::Clock(12)),
        ];
        calls.iter().for_each(|(request, answer)| record(&recorder, request, answer));
        assert_eq!(recorder.answer(&HostRequest::Config("key")), None);
        let json = stored(&recorder);
        let text = String::from_utf8(json.clone()).unwrap();
        assert!(!text.contains("hunter2") && text.contains("__secret_key__"), "{text}");

        let recording = Recording::read(&json, &redaction()).unwrap();
        assert_eq!(recording.config, BTreeSet::from(["key".to_owned()]));
        let again = recording.invocation(job().id, job().topic, Bytes::new(), &redaction());
        assert_eq!((again.headers, again.ttr, again.attempt), (job().headers, job().ttr, 3));
        let replay = Replay::new(&recording);
        for (request, answer) in &calls {
            assert_eq!(replay.answer(request).as_ref(), Some(answer), "{request:?}");
        }
        assert!(replay.departures().is_empty() && !replay.reached_wait());
    }

    #[test]
    fn a_run_departs_where_it_asks_for_something_else() {
        let recorder = Recorder::default();
        record(&recorder, &HostRequest::KvGet(b"a"), &HostAnswer::KvEntry(Ok(None)));
        record(&recorder, &HostRequest::KvGet(b"b"), &HostAnswer::KvEntry(Ok(None)));
        assert_eq!(recorder.answer(&GET), None);
        let recording = Recording::read(&stored(&recorder), &redaction()).unwrap();

        let replay = Replay::new(&recording);
        assert!(replay.answer(&HostRequest::KvGet(b"b")).is_some());
        assert!(matches!(replay.answer(&HostRequest::KvGet(b"c")), Some(HostAnswer::Stop(_))));
        let departures = replay.departures();
        let shown: Vec<(usize, &str, &str)> = departures
            .iter()
            .map(|it| (it.request, it.recorded.as_str(), it.now.as_str()))
            .collect();
        assert_eq!(shown[0], (1, "kv_get a", "kv_get b"));
        assert_eq!(shown[1], (2, "kv_get a", "kv_get c"));
        assert_eq!(shown[2], (1, "kv_get a", "not sent"));
        assert!(
            replay.answer(&HostRequest::Clock(HostClock::Now)) == Some(HostAnswer::Clock(1_000))
        );

        let waits = Replay::new(&recording);
        for request in [HostRequest::KvGet(b"a"), HostRequest::KvGet(b"b"), GET] {
            assert!(waits.answer(&request).is_some());
        }
        assert!(waits.reached_wait() && waits.departures().is_empty());
    }

    #[test]
    fn an_attempt_that_reads_too_much_keeps_only_its_end() {
        let recorder = Recorder::default();
        let large = HostAnswer::Random(vec![1; RECORDING_BYTES_MAX / 2].into());
        for _ in 0..3 {
            record(&recorder, &HostRequest::Random(RECORDING_BYTES_MAX / 2), &large);
        }
        let json = stored(&recorder);
        assert!(json.len() < 1_000);
        let recording = Recording::read(&json, &redaction()).unwrap();
        assert!(recording.is_too_large && recording.calls.is_empty());
        assert_eq!(recording.end.reason, "__secret_key__ failed");
        assert!(Recording::read(b"{}", &redaction()).is_err());
    }
}
