//! A follow-up on its way from the outbox of one topic to another, as the contract tells it: what an
//! entry holds, and the mark under which it is known at its target.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, TopicName};

use crate::fixture::Fixture;
use crate::script::RELAY;

/// How long after its reading an entry may be pushed.
pub(crate) const STALE: Duration = Duration::from_secs(60);
/// How long a mark is kept once its entry has left the outbox.
pub(crate) const KEPT: Duration = Duration::from_secs(120);
/// How long a mark is kept while its entry has not.
pub(crate) const UNMARKED: Duration = Duration::from_secs(7 * 86_400);

/// One follow-up on its way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parcel {
    /// The field of the outbox it stands in.
    pub(crate) entry: Vec<u8>,
    pub(crate) mark: Vec<u8>,
    acked_at_ms: u64,
    pub(crate) follow_up: FollowUp,
}

/// What a target answers of a parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Pushed,
    Kept,
    Known,
    BadDue,
}

impl Parcel {
    /// The follow-ups of an outbox entry.
    pub(crate) fn unpack(source: &TopicName, field: &[u8], value: &[u8]) -> Vec<Self> {
        let space = value.iter().position(|byte| *byte == b' ').unwrap();
        let acked_at = std::str::from_utf8(&value[..space]).unwrap();
        let parcel = |(n, follow_up): (u64, FollowUp)| {
            let mut mark = format!("{source}:").into_bytes();
            mark.extend(field);
            mark.extend(format!(":{n}").bytes());
            let (entry, acked_at_ms) = (field.to_vec(), acked_at.parse().unwrap());
            Self { entry, mark, acked_at_ms, follow_up }
        };
        let follow_ups = Bytes::copy_from_slice(&value[space + 1..]);
        FollowUp::decode(&follow_ups).unwrap().into_iter().map(parcel).collect()
    }

    pub(crate) fn due_ms(&self) -> u64 {
        self.follow_up.due.at_ms(self.acked_at_ms)
    }

    /// Time passes while it is on its way.
    pub(crate) fn put_back(&mut self, by: Duration) {
        self.acked_at_ms -= by.as_millis() as u64;
    }

    /// Pushes parcels to the topic they are for, as a relay does; none if it was too late.
    pub(crate) fn push_raw(
        target: &Fixture,
        parcels: &[&Self],
        not_after_ms: u64,
    ) -> Option<Vec<Word>> {
        let mut args = vec![not_after_ms.to_string().into_bytes()];
        for parcel in parcels {
            let FollowUp { id, payload, options, .. } = &parcel.follow_up;
            args.extend([parcel.mark.clone(), id.as_bytes().to_vec()]);
            args.extend([parcel.due_ms().to_string().into_bytes(), payload.to_vec()]);
            args.push(options.to_json().into_bytes());
        }
        let answer = RELAY.try_call(target, &args).unwrap();
        if answer == redis::Value::BulkString(b"late".to_vec()) {
            return None;
        }
        let words: Vec<String> = redis::from_redis_value(answer).unwrap();
        Some(words.iter().map(|word| Word::read(word)).collect())
    }
}

impl Word {
    fn read(word: &str) -> Self {
        match word {
            "pushed" => Self::Pushed,
            "kept" => Self::Kept,
            "known" => Self::Known,
            "bad_due" => Self::BadDue,
            _ => panic!("{word}"),
        }
    }
}
