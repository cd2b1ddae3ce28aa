//! The verdicts of a worker that Redis has not settled. What a turn takes is put back if Redis does not settle it,
//! unless the error is final.
//!
//! Redis refuses a settle call whole if one of its verdicts would write to a key of a wrong type. After that, verdicts
//! are settled apart by what they leave of their jobs, because that decides to which keys they write. So an unusable
//! `ready`, `retry` or `dead` leaves no ack unsettled until its lease expires.

use std::time::Instant;

use duebox_queue::{Extension, Settlement, Token};

use crate::observe::attempt_record::AttemptRecord;

/// A job with its verdict, and the record of its attempt, which is published once the verdict is settled.
pub(super) struct JudgedJob {
    pub(super) settlement: Settlement,
    pub(super) record: AttemptRecord,
    /// What its attempt read, if it is recorded and the job will be dead.
    pub(super) recording: Option<Vec<u8>>,
}

/// Verdicts that are not settled yet.
#[derive(Default)]
pub(super) struct Unsettled {
    pub(super) jobs: Vec<JudgedJob>,
    /// Some of them carry follow-up jobs.
    pub(super) follow_ups: bool,
    /// Some of them may be settled: the reply to them was lost, and Redis refused their repetition.
    pub(super) may_be_settled: bool,
    /// Redis refused a key of the topic, and no turn has succeeded since.
    pub(super) is_apart: bool,
    /// When a turn must settle them, and the ended jobs that the executor still has.
    pub(super) settle_at: Option<Instant>,
}

impl Unsettled {
    /// Takes the first verdicts that fit into one turn, at most `most`. What is said of some of them is said of those
    /// that remain, too.
    pub(super) fn take(&mut self, most: usize) -> Self {
        let most = if self.is_apart { most.min(self.gather()) } else { most };
        let fitting = Settlement::fitting(self.jobs.iter().map(|job| &job.settlement));
        let later = self.jobs.split_off(fitting.min(most));
        let jobs = std::mem::replace(&mut self.jobs, later);
        let taken = Self { jobs, settle_at: None, ..*self };
        let remain = !self.jobs.is_empty();
        self.follow_ups &= remain;
        self.may_be_settled &= remain;
        taken
    }

    /// Moves the verdicts that leave the same as the first one to the front. Returns their number.
    fn gather(&mut self) -> usize {
        let Some(first) = self.jobs.first().map(|job| job.settlement.remains()) else { return 0 };
        self.jobs.sort_by_key(|job| job.settlement.remains() != first);
        self.jobs.partition_point(|job| job.settlement.remains() == first)
    }

    /// Applies the reply to an extension: the verdict on its job gets the new token. If the lease is lost, Redis refuses
    /// the verdict.
    pub(super) fn apply_extension(&mut self, extension: &Extension, token: Option<&Token>) {
        let Some(token) = token else { return };
        for job in &mut self.jobs {
            job.settlement.follow_extension(extension, token);
        }
    }

    /// Puts back what was taken: before what has come since, but behind it if each kind has its turn.
    pub(super) fn put_back(&mut self, mut taken: Self) {
        if !self.is_apart {
            std::mem::swap(&mut self.jobs, &mut taken.jobs);
        }
        self.jobs.append(&mut taken.jobs);
        self.follow_ups |= taken.follow_ups;
        self.may_be_settled |= taken.may_be_settled;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use duebox_job::{FollowUp, FollowUpDue, JobId, Options, Outcome, TopicName};
    use duebox_queue::{BATCH_MAX, Finish, Lease, Token, Verdict};

    use super::*;

    fn judged(id: &str, verdict: Verdict) -> JudgedJob {
        let id = JobId::new(id).unwrap();
        let record = AttemptRecord::not_run(id.clone(), 1, Outcome::HostFault(String::new()));
        let lease = Lease {
            id,
            token: Token::expiring_at_us(1_763_740_800_000_000),
            due_at_ms: 0,
            place: 0.0,
            payload: Bytes::new(),
            payload_bytes: 0,
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
        };
        JudgedJob { settlement: lease.settle(verdict), record, recording: None }
    }

    fn ids(unsettled: &Unsettled) -> Vec<String> {
        unsettled.jobs.iter().map(|job| job.settlement.id().to_string()).collect()
    }

    #[test]
    fn after_a_refusal_each_kind_of_verdict_has_its_turn() {
        let release = || Verdict::Release { delay: Duration::ZERO };
        let follow_up = FollowUp {
            topic: TopicName::new("next").unwrap(),
            id: JobId::new("child").unwrap(),
            due: FollowUpDue::AfterMs(0),
            payload: Bytes::new(),
            options: Options::default(),
        };
        let parent = Finish { follow_ups: vec![follow_up], ..Finish::default() };
        let verdicts = [
            ("ack", Verdict::Ack),
            ("release", release()),
            ("late", Verdict::Release { delay: Duration::from_secs(1) }),
            ("ack-2", Verdict::Ack),
            ("drop", Verdict::drop("")),
            ("release-2", release()),
            ("nack", Verdict::nack(Duration::ZERO, 2, "")),
            ("last", Verdict::nack(Duration::ZERO, 1, "")),
            ("done", Verdict::Finish(Finish::default())),
            ("parent", Verdict::Finish(parent)),
        ];
        let in_order = verdicts.each_ref().map(|(id, _)| *id);
        let jobs = verdicts.map(|(id, verdict)| judged(id, verdict)).into();
        let mut unsettled = Unsettled { jobs, ..Unsettled::default() };
        let mut refused = unsettled.take(BATCH_MAX);
        assert_eq!(ids(&refused), in_order);

        unsettled.is_apart = true;
        let turns: [&[&str]; 7] = [
            &["ack", "ack-2"],
            &["release", "release-2"],
            &["late", "nack"],
            &["drop", "last"],
            &["done"],
            &["parent"],
            &["ack", "ack-2"],
        ];
        for expected in turns {
            unsettled.put_back(refused);
            refused = unsettled.take(BATCH_MAX);
            assert_eq!(ids(&refused), expected);
        }
        let others = ["release", "release-2", "late", "nack", "drop", "last", "done", "parent"];
        assert_eq!(ids(&unsettled), others);

        unsettled.is_apart = false;
        unsettled.put_back(refused);
        assert_eq!(ids(&unsettled.take(3)), ["ack", "ack-2", "release"]);
        assert_eq!(ids(&unsettled), others[1..]);
    }
}
