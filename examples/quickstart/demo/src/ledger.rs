//! The demo's own ledger: the pushed jobs, and the verdicts that handlers logged for each.

use std::collections::{BTreeMap, HashMap};

use crate::plan::{End, ExpectedEnd, PlannedJob, Topic};

/// A verdict in a handler's log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ack,
    Nack,
    Drop,
}

/// One pushed job.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) topic: Topic,
    pub(crate) expected: ExpectedEnd,
    pub(crate) effect: bool,
    due_ms: u64,
    /// The handler's verdicts by attempt; several if the daemon was killed during the attempt.
    verdicts: BTreeMap<u32, Vec<Verdict>>,
    /// Attempts settled before the daemon was killed; their log lines may be lost.
    settled: u32,
    /// The attempt that was running when the daemon was killed; it runs again.
    interrupted: Option<u32>,
    /// How much too early the first attempt started, µs; `None` if it was not early.
    early_us: Option<i64>,
}

/// What is known of one topic.
#[derive(Debug, Default)]
pub(crate) struct TopicSummary {
    pub(crate) acked: u64,
    /// The digest of the newest module that ran a job of the topic.
    pub(crate) digest: String,
    /// From the due time to the handler's verdict, first attempts only, µs, sorted.
    late_us: Vec<i64>,
}

/// All pushed jobs, and a summary of each topic.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<String, Entry>,
    topics: HashMap<Topic, TopicSummary>,
}

impl Ledger {
    /// Records a push. Call it before the push, so that no verdict arrives earlier.
    pub(crate) fn record_push(&mut self, job: &PlannedJob) {
        let entry = Entry {
            topic: job.topic,
            expected: job.expected,
            effect: job.effect,
            due_ms: job.due_ms,
            verdicts: BTreeMap::new(),
            settled: 0,
            interrupted: None,
            early_us: None,
        };
        self.entries.insert(job.id.clone(), entry);
    }

    /// Records that the daemon was killed: how many attempts of a job were settled by then, and
    /// whether another one was running.
    pub(crate) fn record_crash(&mut self, job_id: &str, settled: Option<u32>, is_running: bool) {
        let Some(entry) = self.entries.get_mut(job_id) else { return };
        entry.settled = settled.unwrap_or(entry.expected.attempts);
        entry.interrupted = is_running.then_some(entry.settled + 1);
    }

    /// Records a handler's log line if it is a verdict on a known job.
    pub(crate) fn record_line(
        &mut self,
        job_id: &str,
        attempt: u32,
        digest: &str,
        at_us: i64,
        message: &str,
    ) {
        let Some(entry) = self.entries.get_mut(job_id) else { return };
        let Some(verdict) = Verdict::read(message) else { return };
        let summary = self.topics.entry(entry.topic).or_default();
        if entry.verdicts.is_empty() {
            let late_us = at_us - i64::try_from(entry.due_ms).unwrap_or_default() * 1_000;
            let place = summary.late_us.partition_point(|other| *other < late_us);
            summary.late_us.insert(place, late_us);
            entry.early_us = (late_us < 0).then_some(-late_us);
        }
        entry.verdicts.entry(attempt).or_default().push(verdict);
        summary.acked += u64::from(verdict == Verdict::Ack);
        if summary.digest != digest {
            digest.clone_into(&mut summary.digest);
        }
    }

    /// The summary of a topic; `None` before its first verdict.
    pub(crate) fn topic(&self, topic: Topic) -> Option<&TopicSummary> {
        self.topics.get(&topic)
    }

    /// Every job, sorted by id.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.entries.iter()
    }

    /// The ids of a topic's jobs.
    pub(crate) fn ids(&self, topic: Topic) -> Vec<String> {
        let of_topic = self.entries.iter().filter(|(_, entry)| entry.topic == topic);
        of_topic.map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of jobs whose last expected verdict is still missing.
    pub(crate) fn open(&self) -> usize {
        let open = |entry: &&Entry| !entry.is_settled(entry.expected.attempts);
        self.entries.values().filter(open).count()
    }
}

impl Verdict {
    /// Parses the verdict at the start of a handler's line.
    fn read(message: &str) -> Option<Self> {
        match message.strip_prefix("verdict=")?.split(' ').next()? {
            "ack" => Some(Self::Ack),
            "nack" => Some(Self::Nack),
            "drop" => Some(Self::Drop),
            _ => None,
        }
    }
}

impl Entry {
    /// Whether the job had a second attempt.
    pub(crate) fn was_retried(&self) -> bool {
        self.verdicts.keys().any(|attempt| *attempt > 1)
    }

    /// Whether the verdict of an attempt was logged, or may be lost because the daemon was killed.
    fn is_settled(&self, attempt: u32) -> bool {
        self.verdicts.contains_key(&attempt) || attempt <= self.settled
    }

    /// How the logged verdicts differ from the plan; `None` if they match.
    pub(crate) fn mismatch(&self) -> Option<String> {
        if let Some(early_us) = self.early_us {
            return Some(format!("started {early_us} µs before it was due"));
        }
        let last = self.expected.attempts;
        if let Some((beyond, _)) = self.verdicts.range(last + 1..).next() {
            return Some(format!("ran attempt {beyond} after its last attempt {last}"));
        }
        (1..=last).find_map(|attempt| {
            let wanted = match self.expected.end {
                _ if attempt < last => Verdict::Nack,
                End::Acked => Verdict::Ack,
                End::Dead("drop") => Verdict::Drop,
                End::Dead(_) => Verdict::Nack,
            };
            let logged = self.verdicts.get(&attempt).map_or(&[][..], Vec::as_slice);
            let may_repeat = self.interrupted == Some(attempt);
            let fits = self.is_settled(attempt)
                && logged.iter().all(|verdict| *verdict == wanted)
                && (logged.len() <= 1 || may_repeat);
            (!fits).then(|| {
                format!("its handler logged {logged:?} in attempt {attempt}, expected {wanted:?}")
            })
        })
    }
}

impl TopicSummary {
    /// The given quantile of the lateness of first attempts, ms.
    pub(crate) fn late_ms(&self, quantile: f64) -> f64 {
        let last = self.late_us.len().saturating_sub(1);
        let place = (last as f64 * quantile).round() as usize;
        self.late_us.get(place).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(expected: ExpectedEnd) -> Ledger {
        let mut ledger = Ledger::default();
        let (id, payload) = ("a".to_owned(), String::new());
        let topic = Topic::OrderClose;
        let states = Vec::new();
        ledger.record_push(&PlannedJob {
            topic,
            id,
            due_ms: 1_000,
            payload,
            states,
            expected,
            effect: true,
        });
        ledger
    }

    fn mismatch(ledger: &Ledger) -> Option<String> {
        ledger.entries().next().unwrap().1.mismatch()
    }

    #[test]
    fn a_job_is_open_until_its_last_verdict() {
        let mut ledger = ledger(ExpectedEnd { attempts: 2, end: End::Acked });
        ledger.record_line("a", 1, "d1", 1_000_500, "verdict=nack edition=1");
        ledger.record_line("a", 1, "d1", 1_000_600, "a message that is not a verdict");
        assert_eq!(ledger.open(), 1);
        assert!(mismatch(&ledger).is_some());
        ledger.record_line("a", 2, "d2", 2_000_000, "verdict=ack edition=2");
        assert_eq!((ledger.open(), mismatch(&ledger)), (0, None));
        let summary = ledger.topic(Topic::OrderClose).unwrap();
        assert_eq!((summary.acked, summary.digest.as_str(), summary.late_ms(0.99)), (1, "d2", 0.5));
    }

    #[test]
    fn early_repeated_and_wrong_verdicts_are_mismatches() {
        let once = ExpectedEnd { attempts: 1, end: End::Acked };
        let mut early = ledger(once);
        early.record_line("a", 1, "d", 999_999, "verdict=ack");
        assert!(mismatch(&early).unwrap().contains("1 µs before"));
        let mut twice = ledger(once);
        twice.record_line("a", 1, "d", 1_000_000, "verdict=ack");
        twice.record_line("a", 1, "d", 1_000_000, "verdict=ack");
        assert!(mismatch(&twice).is_some());
        let mut wrong = ledger(ExpectedEnd { attempts: 1, end: End::Dead("drop") });
        wrong.record_line("a", 1, "d", 1_000_000, "verdict=ack");
        assert!(mismatch(&wrong).unwrap().contains("Drop"));
    }
    #[test]
    fn a_crash_excuses_only_the_attempts_it_interrupted() {
        let twice = ExpectedEnd { attempts: 2, end: End::Acked };
        let mut lost = ledger(twice);
        lost.record_crash("a", Some(1), true);
        lost.record_line("a", 2, "d", 2_000_000, "verdict=ack");
        lost.record_line("a", 2, "d", 2_000_000, "verdict=ack");
        assert_eq!((lost.open(), mismatch(&lost)), (0, None));
        let mut gone = ledger(twice);
        gone.record_crash("a", None, false);
        assert_eq!((gone.open(), mismatch(&gone)), (0, None));
        let mut waiting = ledger(twice);
        waiting.record_crash("a", Some(1), false);
        waiting.record_line("a", 2, "d", 2_000_000, "verdict=ack");
        waiting.record_line("a", 2, "d", 2_000_000, "verdict=ack");
        assert!(mismatch(&waiting).is_some());
    }
}
