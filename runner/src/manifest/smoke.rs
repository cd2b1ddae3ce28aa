//! `[[topics.NAME.smoke]]`: jobs that a module must answer as expected before it serves.

use bytes::Bytes;

use super::json::read_payload;
use super::keys::SMOKE;
use super::section::Section;

/// The most smoke cases of a topic.
const CASES_MAX: usize = 100;

/// One job and its expected verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmokeCase {
    /// The payload; no longer than the topic's `sandbox.payload`.
    pub payload: Bytes,
    /// The expected verdict.
    pub expect: Expected,
}

/// The verdicts of a handler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expected {
    /// The job is done.
    #[default]
    Ack,
    /// The attempt failed; retry the job.
    Nack,
    /// The job failed; do not retry it.
    Drop,
    /// The job is postponed.
    Snooze,
}

impl Expected {
    /// Each verdict with its name in the manifest.
    const WORDS: [(&'static str, Self); 4] =
        [("ack", Self::Ack), ("nack", Self::Nack), ("drop", Self::Drop), ("snooze", Self::Snooze)];

    /// Its name in the manifest.
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, known)| *known == self).map_or("", |(word, _)| word)
    }
}

/// Reads every case of a topic or of `[defaults]`; `None` if the table sets none.
pub(super) fn read_smoke(topic: &Section<'_>) -> Option<Vec<SmokeCase>> {
    let value = topic.value("smoke")?;
    let reader = topic.reader();
    if value.get_ref().is_table() {
        let title = "`smoke` is a table; it must be an array of tables".to_owned();
        let hint = "write [[topics.\"NAME\".smoke]], with two brackets, above each case";
        reader.refuse(topic.key_at("smoke"), title, hint);
        return None;
    }
    let entries = topic.list("smoke")?;
    if entries.len() > CASES_MAX {
        let title =
            format!("there are {} smoke cases; at most {CASES_MAX} are allowed", entries.len());
        let hint = "keep the cases that detect a broken module";
        reader.refuse(topic.key_at("smoke"), title, hint);
        return None;
    }
    let read = |entry| {
        let table = reader.table("smoke", entry, Some(entry.span()))?;
        let section = Section::open(reader, table, &SMOKE);
        let (payload, expect) = (read_payload(&section), read_expected(&section));
        Some(SmokeCase { payload: payload?, expect: expect? })
    };
    entries.iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

fn read_expected(section: &Section<'_>) -> Option<Expected> {
    match section.value("expect") {
        None => Some(Expected::default()),
        Some(_) => section.choice("expect", &Expected::WORDS),
    }
}

/// Refuses cases whose payload exceeds the topic's limit.
pub(super) fn check_smoke(topic: &Section<'_>, cases: &[SmokeCase], payload_max: usize) {
    let too_long = |case: &&SmokeCase| case.payload.len() > payload_max;
    if let Some(case) = cases.iter().find(too_long) {
        let at = topic.key_at("smoke");
        let bytes = case.payload.len();
        let title = format!(
            "the payload of a smoke case is {bytes} bytes long; the topic allows at most {payload_max}"
        );
        topic.reader().refuse(at, title, "shorten it, or raise sandbox.payload of the topic");
    }
}
