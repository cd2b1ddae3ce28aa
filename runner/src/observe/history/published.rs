//! The form in which daemons publish what they recorded: fields of a hash in Redis, for each minute one with the sum
//! (`s` and the minute) and one with the topics (`t` and the minute), and what was counted in all (`counted`). Numbers
//! are of variable length, as in memory. Whatever cannot be read, of a later version perhaps, is left out.

use std::collections::BTreeMap;

use duebox_job::TopicName;

use super::MINUTE;
use super::sample::{Sample, read_number, write_number};
use crate::observe::tally::Tally;

/// The field with the counts since the start of the daemon.
pub(super) const COUNTED: &str = "counted";

/// What a daemon has recorded, by minutes since 1970.
#[derive(Debug, Default, PartialEq)]
pub struct PublishedHistory {
    /// Its steps.
    pub(super) steps: BTreeMap<u64, PublishedStep>,
    /// What it had counted when it published; `None` if that is unknown.
    pub counted: Option<Counted>,
}

/// What happened in a minute.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct PublishedStep {
    pub(super) total: Sample,
    pub(super) topics: Vec<(TopicName, Sample)>,
}

/// The counts of a daemon since its start, at the end of its published steps.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Counted {
    /// When it was published, unix ms by the daemon's clock.
    pub at_ms: u64,
    /// The counts by topic; true for those of pull consumers.
    pub tallies: Vec<((TopicName, bool), Tally)>,
}

pub(super) fn sum_field(minute: u64) -> String {
    format!("s{minute}")
}

pub(super) fn topics_field(minute: u64) -> String {
    format!("t{minute}")
}

impl PublishedHistory {
    /// The fields with the steps of the last `span_ms`.
    pub fn fields(now_ms: u64, span_ms: u64) -> Vec<String> {
        let minutes = now_ms.saturating_sub(span_ms) / MINUTE..=now_ms / MINUTE;
        minutes.flat_map(|minute| [sum_field(minute), topics_field(minute)]).collect()
    }

    /// What happened to topics, step by step.
    pub fn topics(&self) -> impl Iterator<Item = &(TopicName, Sample)> {
        self.steps.values().flat_map(|step| &step.topics)
    }

    /// Reads the fields of a hash.
    pub fn read(fields: &[(String, Vec<u8>)]) -> Self {
        let mut history = Self::default();
        for (name, bytes) in fields {
            let mut rest = &bytes[..];
            let minute = name.get(1..).and_then(|minute| minute.parse::<u64>().ok());
            match (name.get(..1), minute) {
                (Some("s"), Some(minute)) => {
                    history.steps.entry(minute).or_default().total = Sample::read(&mut rest);
                }
                (Some("t"), Some(minute)) => {
                    let topics = std::iter::from_fn(|| read_named(&mut rest));
                    history.steps.entry(minute).or_default().topics = topics.collect();
                }
                _ if name == COUNTED => history.counted = Counted::read(rest),
                _ => {}
            }
        }
        // The sum of a minute is written with its topics; without it they are not of one moment.
        history.steps.retain(|_, step| !step.total.is_empty());
        history
    }
}

impl Counted {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut to = self.at_ms.to_le_bytes().to_vec();
        for ((name, is_pulled), tally) in &self.tallies {
            to.push(u8::from(*is_pulled));
            write_named(&mut to, name, &Sample::of(*tally));
        }
        to
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (at, mut rest) = bytes.split_first_chunk::<8>()?;
        let tallies = std::iter::from_fn(|| {
            let (is_pulled, named) = rest.split_first()?;
            rest = named;
            let (name, sample) = read_named(&mut rest)?;
            Some(((name, *is_pulled == 1), sample.tally))
        });
        Some(Self { at_ms: u64::from_le_bytes(*at), tallies: tallies.collect() })
    }
}

/// Appends a topic's name and its sample.
pub(super) fn write_named(to: &mut Vec<u8>, name: &TopicName, sample: &Sample) {
    write_number(to, name.as_str().len() as u32);
    to.extend_from_slice(name.as_str().as_bytes());
    sample.write(to);
}

/// Reads a name and a sample; `None` at the end, and where it cannot be read.
fn read_named(from: &mut &[u8]) -> Option<(TopicName, Sample)> {
    let length = read_number(from) as usize;
    let (name, rest) = from.split_at_checked(length)?;
    *from = rest;
    let name = TopicName::new(std::str::from_utf8(name).ok()?).ok()?;
    Some((name, Sample::read(from)))
}
