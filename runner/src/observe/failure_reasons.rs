//! Why attempts of a topic failed in this process, by class, module and reason: how often, since when, and the last
//! job. Reasons that differ only in numbers and ids count as one.
//!
//! Only failures cost anything: one lock for those of a turn.

use duebox_job::FailureClass;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::attempt_record::AttemptRecord;

/// Reasons kept of a topic.
const KEPT: usize = 8;
/// The longest reason, in bytes.
const REASON_MAX: usize = 160;
/// A reason that did not occur for so long is counted anew.
const FORGOTTEN_AFTER_MS: u64 = 3_600_000;

/// One reason for which attempts failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailureReason {
    /// The class of the failures.
    #[schema(value_type = String)]
    pub class: FailureClass,
    /// The reason of the last of them, for people; at most 160 bytes.
    pub reason: String,
    /// The module that ran, 64 hex digits; null if none did.
    #[serde(default)]
    pub digest: Option<String>,
    /// How many attempts failed for it.
    pub attempts: u64,
    /// When the first of them ended, unix ms.
    pub first_ms: u64,
    /// When the last of them ended, unix ms.
    pub last_ms: u64,
    /// The id of the last job.
    pub job: String,
}

/// The reasons of one topic in this process.
#[derive(Default)]
pub struct FailureReasons(Mutex<Vec<FailureReason>>);

impl FailureReasons {
    /// Counts the failures among settled attempts.
    pub fn add<'r>(&self, attempts: impl Iterator<Item = &'r AttemptRecord>) {
        let mut failed = attempts.filter_map(|record| Some((record, record.class()?))).peekable();
        if failed.peek().is_none() {
            return;
        }
        let now_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let mut kept = self.0.lock();
        for (record, class) in failed {
            add(&mut kept, FailureReason::of(record, class, now_ms));
        }
    }

    /// The reasons, the most recent first; at most `most`.
    pub fn latest(&self, most: usize) -> Vec<FailureReason> {
        let mut reasons = self.0.lock().clone();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.last_ms));
        reasons.truncate(most);
        reasons
    }
}

fn add(kept: &mut Vec<FailureReason>, new: FailureReason) {
    if let Some(known) = kept.iter_mut().find(|known| known.is_same(&new)) {
        if new.last_ms.saturating_sub(known.last_ms) > FORGOTTEN_AFTER_MS {
            *known = new;
        } else {
            known.merge(&new);
        }
        return;
    }
    if kept.len() == KEPT
        && let Some(oldest) = (0..kept.len()).min_by_key(|at| kept[*at].last_ms)
    {
        kept.swap_remove(oldest);
    }
    kept.push(new);
}

impl FailureReason {
    fn of(record: &AttemptRecord, class: FailureClass, now_ms: u64) -> Self {
        let (_, _, reason) = record.verdict_words();
        let end = reason.floor_char_boundary(REASON_MAX);
        Self {
            class,
            reason: reason[..end].to_owned(),
            digest: record.digest.map(|digest| digest.to_string()),
            attempts: 1,
            first_ms: now_ms,
            last_ms: now_ms,
            job: record.id.to_string(),
        }
    }

    /// True if the class and the module are the same, and the reasons differ only in numbers and ids.
    pub fn is_same(&self, other: &Self) -> bool {
        self.class == other.class
            && self.digest == other.digest
            && (self.reason == other.reason || pattern(&self.reason).eq(pattern(&other.reason)))
    }

    /// Adds failures of the same reason.
    pub fn merge(&mut self, other: &Self) {
        self.attempts = self.attempts.saturating_add(other.attempts);
        self.first_ms = self.first_ms.min(other.first_ms);
        if other.last_ms >= self.last_ms {
            self.last_ms = other.last_ms;
            self.reason.clone_from(&other.reason);
            self.job.clone_from(&other.job);
        }
    }
}

/// The words of a reason; words with a digit are `#`, except HTTP status codes.
fn pattern(reason: &str) -> impl Iterator<Item = &str> {
    let words = reason.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| {
        let is_status =
            word.len() == 3 && word.parse::<u16>().is_ok_and(|n| (100..600).contains(&n));
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        if has_digit && !is_status { "#" } else { word }
    })
}

#[cfg(test)]
mod tests {
    use duebox_job::{Failure, JobId, Outcome};

    use super::*;

    fn failed(id: usize, class: FailureClass, reason: &str) -> AttemptRecord {
        let failure = Failure { class, reason: reason.to_owned(), retry_after: None };
        AttemptRecord::not_run(JobId::from_redis(id.to_string()), 1, Outcome::Failed(failure))
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_one_and_classes_are_not() {
        let reasons = FailureReasons::default();
        let records = [
            failed(1, FailureClass::Nack, "order 17 of acme: HTTP 503"),
            failed(2, FailureClass::Nack, "order 18 of acme: HTTP 503"),
            failed(3, FailureClass::Nack, "order 18 of acme: HTTP 404"),
            failed(4, FailureClass::Trap, "order 18 of acme: HTTP 503"),
            AttemptRecord::not_run(JobId::from_redis("5".to_owned()), 1, Outcome::Acked),
        ];
        reasons.add(records.iter());
        let all = reasons.latest(9);
        assert_eq!(all.len(), 3);
        let first = all.iter().find(|reason| reason.attempts == 2).unwrap();
        assert_eq!(
            (first.job.as_str(), first.reason.as_str()),
            ("2", "order 18 of acme: HTTP 503")
        );
        assert_eq!(reasons.latest(1).len(), 1);
    }

    #[test]
    fn the_number_and_the_length_of_reasons_are_bounded() {
        let reasons = FailureReasons::default();
        let word = |n: usize| "abcdefghijkl"[..n].to_owned() + &"ä".repeat(500);
        let records: Vec<AttemptRecord> =
            (1..12).map(|n| failed(n, FailureClass::Nack, &word(n))).collect();
        reasons.add(records.iter());
        let all = reasons.latest(99);
        assert_eq!(all.len(), KEPT);
        assert!(all.iter().all(|reason| reason.reason.len() <= REASON_MAX));
    }

    #[test]
    fn a_reason_of_long_ago_is_counted_anew() {
        let mut kept = Vec::new();
        let at =
            |ms| FailureReason::of(&failed(1, FailureClass::Nack, "no"), FailureClass::Nack, ms);
        add(&mut kept, at(1));
        add(&mut kept, at(FORGOTTEN_AFTER_MS));
        assert_eq!((kept[0].attempts, kept[0].first_ms), (2, 1));
        add(&mut kept, at(3 * FORGOTTEN_AFTER_MS));
        assert_eq!((kept[0].attempts, kept[0].first_ms), (1, 3 * FORGOTTEN_AFTER_MS));
    }
}
