//! The demo's own books: what was pushed, and what the handlers said about each job.

use std::collections::{BTreeMap, HashMap};

use crate::plan::{End, Fate, Planned, Topic};

/// What a handler said a job's verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Ack,
    Nack,
    Drop,
}

/// One pushed job.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) topic: Topic,
    pub(crate) fate: Fate,
    pub(crate) effect: bool,
    due_ms: u64,
    /// What its handler said, by attempt; more than once where a runner died in it.
    words: BTreeMap<u32, Vec<Word>>,
    /// Attempts that were settled when a runner died; their words may have died with it.
    settled: u32,
    /// The attempt that was under way when a runner died; it is run again.
    broken: Option<u32>,
    /// How long before its due time a handler had it, if ever, µs.
    early_us: Option<i64>,
}

/// What the handlers of one topic have said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) acked: u64,
    /// The newest module that has run a job of the topic.
    pub(crate) digest: String,
    /// From the due time to the handler's verdict, first attempts only, µs, sorted.
    late_us: Vec<i64>,
}

/// All pushed jobs, and what can be told of a topic at a glance.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: BTreeMap<String, Entry>,
    topics: HashMap<Topic, Heard>,
}

impl Ledger {
    /// Writes down a push. To be called before the push, so that no verdict comes first.
    pub(crate) fn pushed(&mut self, job: &Planned) {
        let entry = Entry {
            topic: job.topic,
            fate: job.fate,
            effect: job.effect,
            due_ms: job.due_ms,
            words: BTreeMap::new(),
            settled: 0,
            broken: None,
            early_us: None,
        };
        self.entries.insert(job.id.clone(), entry);
    }

    /// Writes down that a runner died when so many attempts of a job were settled, and whether another
    /// was under way.
    pub(crate) fn broken_off(&mut self, job_id: &str, settled: Option<u32>, is_running: bool) {
        let Some(entry) = self.entries.get_mut(job_id) else { return };
        entry.settled = settled.unwrap_or(entry.fate.attempts);
        entry.broken = is_running.then_some(entry.settled + 1);
    }

    /// Writes down a handler's line, if it names a verdict on a job of ours.
    pub(crate) fn heard(
        &mut self,
        job_id: &str,
        attempt: u32,
        digest: &str,
        at_us: i64,
        message: &str,
    ) {
        let Some(entry) = self.entries.get_mut(job_id) else { return };
        let Some(word) = Word::read(message) else { return };
        let heard = self.topics.entry(entry.topic).or_default();
        if entry.words.is_empty() {
            let late_us = at_us - i64::try_from(entry.due_ms).unwrap_or_default() * 1_000;
            let place = heard.late_us.partition_point(|other| *other < late_us);
            heard.late_us.insert(place, late_us);
            entry.early_us = (late_us < 0).then_some(-late_us);
        }
        entry.words.entry(attempt).or_default().push(word);
        heard.acked += u64::from(word == Word::Ack);
        if heard.digest != digest {
            digest.clone_into(&mut heard.digest);
        }
    }

    /// What the handlers of a topic have said; none if nothing yet.
    pub(crate) fn topic(&self, topic: Topic) -> Option<&Heard> {
        self.topics.get(&topic)
    }

    /// Every job by its id, in order.
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

    /// Jobs whose handlers have not yet said as much as they must.
    pub(crate) fn open(&self) -> usize {
        let open = |entry: &&Entry| !entry.has_heard(entry.fate.attempts);
        self.entries.values().filter(open).count()
    }
}

impl Word {
    /// Reads the verdict that a handler's line begins with.
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
    /// True if a second attempt was heard.
    pub(crate) fn was_retried(&self) -> bool {
        self.words.keys().any(|attempt| *attempt > 1)
    }

    /// True if an attempt's word was heard, or died with a runner after the attempt was settled.
    fn has_heard(&self, attempt: u32) -> bool {
        self.words.contains_key(&attempt) || attempt <= self.settled
    }

    /// What is wrong with what the handlers said, for people; none if it is what had to come.
    pub(crate) fn complaint(&self) -> Option<String> {
        if let Some(early_us) = self.early_us {
            return Some(format!("ran {early_us} µs before it was due"));
        }
        let last = self.fate.attempts;
        if let Some((beyond, _)) = self.words.range(last + 1..).next() {
            return Some(format!("was run in attempt {beyond}, after its end in attempt {last}"));
        }
        (1..=last).find_map(|attempt| {
            let wanted = match self.fate.end {
                _ if attempt < last => Word::Nack,
                End::Acked => Word::Ack,
                End::Dead("drop") => Word::Drop,
                End::Dead(_) => Word::Nack,
            };
            let said = self.words.get(&attempt).map_or(&[][..], Vec::as_slice);
            let may_repeat = self.broken == Some(attempt);
            let fits = self.has_heard(attempt)
                && said.iter().all(|word| *word == wanted)
                && (said.len() <= 1 || may_repeat);
            (!fits)
                .then(|| format!("its handler said {said:?} in attempt {attempt}, not {wanted:?}"))
        })
    }
}

impl Heard {
    /// The lateness below which this part of the first attempts lies, ms.
    pub(crate) fn late_ms(&self, quantile: f64) -> f64 {
        let last = self.late_us.len().saturating_sub(1);
        let place = (last as f64 * quantile).round() as usize;
        self.late_us.get(place).map_or(0.0, |us| *us as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(fate: Fate) -> Ledger {
        let mut ledger = Ledger::default();
        let (id, payload) = ("a".to_owned(), String::new());
        let topic = Topic::OrderClose;
        let states = Vec::new();
        ledger.pushed(&Planned { topic, id, due_ms: 1_000, payload, states, fate, effect: true });
        ledger
    }

    fn complaint(ledger: &Ledger) -> Option<String> {
        ledger.entries().next().unwrap().1.complaint()
    }

    #[test]
    fn a_job_is_open_until_its_last_word() {
        let mut ledger = ledger(Fate { attempts: 2, end: End::Acked });
        ledger.heard("a", 1, "d1", 1_000_500, "verdict=nack edition=1");
        ledger.heard("a", 1, "d1", 1_000_600, "a message that is no verdict");
        assert_eq!(ledger.open(), 1);
        assert!(complaint(&ledger).is_some());
        ledger.heard("a", 2, "d2", 2_000_000, "verdict=ack edition=2");
        assert_eq!((ledger.open(), complaint(&ledger)), (0, None));
        let heard = ledger.topic(Topic::OrderClose).unwrap();
        assert_eq!((heard.acked, heard.digest.as_str(), heard.late_ms(0.99)), (1, "d2", 0.5));
    }

    #[test]
    fn what_must_not_be_is_a_complaint() {
        let once = Fate { attempts: 1, end: End::Acked };
        let mut early = ledger(once);
        early.heard("a", 1, "d", 999_999, "verdict=ack");
        assert!(complaint(&early).unwrap().contains("1 µs before"));
        let mut twice = ledger(once);
        twice.heard("a", 1, "d", 1_000_000, "verdict=ack");
        twice.heard("a", 1, "d", 1_000_000, "verdict=ack");
        assert!(complaint(&twice).is_some());
        let mut wrong = ledger(Fate { attempts: 1, end: End::Dead("drop") });
        wrong.heard("a", 1, "d", 1_000_000, "verdict=ack");
        assert!(complaint(&wrong).unwrap().contains("Drop"));
    }
    #[test]
    fn a_runners_death_excuses_what_it_took_along_and_nothing_else() {
        let twice = Fate { attempts: 2, end: End::Acked };
        let mut lost = ledger(twice);
        lost.broken_off("a", Some(1), true);
        lost.heard("a", 2, "d", 2_000_000, "verdict=ack");
        lost.heard("a", 2, "d", 2_000_000, "verdict=ack");
        assert_eq!((lost.open(), complaint(&lost)), (0, None));
        let mut gone = ledger(twice);
        gone.broken_off("a", None, false);
        assert_eq!((gone.open(), complaint(&gone)), (0, None));
        let mut waiting = ledger(twice);
        waiting.broken_off("a", Some(1), false);
        waiting.heard("a", 2, "d", 2_000_000, "verdict=ack");
        waiting.heard("a", 2, "d", 2_000_000, "verdict=ack");
        assert!(complaint(&waiting).is_some());
    }
}
