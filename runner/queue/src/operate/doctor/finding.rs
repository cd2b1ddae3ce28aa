//! What the doctor finds.

use bytes::Bytes;
use serde::{Serialize, Serializer};

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The topic; empty if the fault belongs to no topic.
    pub topic: String,
    /// What is wrong.
    pub kind: FindingKind,
    /// What is affected: a job's id; for some kinds the name of a key, or a job key.
    #[serde(serialize_with = "as_text")]
    pub subject: Bytes,
    /// Details, as text.
    pub detail: String,
    /// What was done about it; empty if nothing.
    pub done: String,
}

impl Finding {
    /// The subject as text; invalid UTF-8 is replaced.
    pub fn subject_text(&self) -> String {
        String::from_utf8_lossy(&self.subject).into_owned()
    }

    /// True if it was repaired.
    pub fn is_repaired(&self) -> bool {
        !self.done.is_empty()
    }
}

fn as_text<S: Serializer>(subject: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(subject))
}

/// The kinds of faults, each with its repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A key has a wrong type: it is renamed.
    WrongType,
    /// An id waits without a payload: it is removed.
    NoPayload,
    /// A due time is not unix milliseconds: the job goes to dead.
    BadDue,
    /// Another score is not a time: it is set to now.
    BadScore,
    /// An id is in two states: it is left in one.
    TwoStages,
    /// A payload is in no state: it goes to dead.
    Orphan,
    /// Options without a job: they are removed.
    StrayOptions,
    /// The options of a live job are invalid: reported only. The job goes to dead when it is leased.
    BadOptions,
    /// Attempts or an error of a job that has not begun: they are removed.
    StrayAttempts,
    /// A permit of a key that no job holds: the next job gets it.
    StrayPermit,
    /// The permits of a key are counted wrong: they are counted again.
    WrongPermits,
    /// `blocked` and its index differ, or a member is invalid: they are made to agree.
    QueueMismatch,
    /// A job waits in a queue of a key that nothing advances: it is admitted.
    StuckQueue,
    /// The parts of a dead job do not match.
    DeadParts,
    /// The parts of a done job do not match.
    DoneParts,
    /// Follow-ups that the relay cannot read: they are moved aside.
    BadOutbox,
    /// Revisions or expiries without a value: they are removed.
    StoreParts,
    /// The bytes of the store are counted wrong: they are counted again.
    WrongBytes,
    /// The set of topics holds a name that no topic can have: removed.
    BadTopic,
    /// The set of topics names one that has no keys and no entry in the manifest: removed.
    EmptyTopic,
    /// A topic has keys and is not in the set of topics: added.
    UnlistedTopic,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 21] = [
        Self::WrongType,
        Self::NoPayload,
        Self::BadDue,
        Self::BadScore,
        Self::TwoStages,
        Self::Orphan,
        Self::StrayOptions,
        Self::BadOptions,
        Self::StrayAttempts,
        Self::StrayPermit,
        Self::WrongPermits,
        Self::QueueMismatch,
        Self::StuckQueue,
        Self::DeadParts,
        Self::DoneParts,
        Self::BadOutbox,
        Self::StoreParts,
        Self::WrongBytes,
        Self::BadTopic,
        Self::EmptyTopic,
        Self::UnlistedTopic,
    ];

    /// The name in reports and scripts.
    pub fn name(self) -> &'static str {
        match self {
            Self::WrongType => "wrong_type",
            Self::NoPayload => "no_payload",
            Self::BadDue => "bad_due",
            Self::BadScore => "bad_score",
            Self::TwoStages => "two_stages",
            Self::Orphan => "orphan",
            Self::StrayOptions => "stray_options",
            Self::BadOptions => "bad_options",
            Self::StrayAttempts => "stray_attempts",
            Self::StrayPermit => "stray_permit",
            Self::WrongPermits => "wrong_permits",
            Self::QueueMismatch => "queue_mismatch",
            Self::StuckQueue => "stuck_queue",
            Self::DeadParts => "dead_parts",
            Self::DoneParts => "done_parts",
            Self::BadOutbox => "bad_outbox",
            Self::StoreParts => "store_parts",
            Self::WrongBytes => "wrong_bytes",
            Self::BadTopic => "bad_topic",
            Self::EmptyTopic => "empty_topic",
            Self::UnlistedTopic => "unlisted_topic",
        }
    }

    pub(super) fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_serde_writes() {
        for kind in FindingKind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
            assert_eq!(FindingKind::read(kind.name()), Some(kind));
        }
    }
}
