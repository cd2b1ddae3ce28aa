//! The outbox of a topic: the follow-ups of its acks, until they are pushed to their topics.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, Shard};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::wire::constants::CALL_BYTES_MAX;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, score, text};
use crate::wire::script::{self, OUTBOX, TRIM_OUTBOX};

/// How long after it was read an entry may be pushed. The clocks of two Redis servers may differ by
/// as much again before a dedup record could be removed too early.
const STALE: Duration = Duration::from_secs(60);
/// Entries in one read.
const ENTRIES_MAX: usize = 100;

/// The follow-ups of one ack, as the outbox stores them.
pub(super) struct Entry {
    pub(super) field: Bytes,
    value: Bytes,
}

/// Some entries, and the time after which they must not be pushed, unix ms.
pub(super) struct Reading {
    pub(super) entries: Vec<Entry>,
    pub(super) not_after_ms: u64,
}

/// One follow-up with its dedup record.
pub(super) struct Parcel {
    /// The field of its entry.
    pub(super) entry: Bytes,
    /// Its number in the ack.
    pub(super) number: u64,
    pub(super) dedup_record: Vec<u8>,
    acked_at_ms: u64,
    pub(super) follow_up: FollowUp,
}

impl Queue {
    /// Outbox entries of each shard, in one pipeline. A shard whose keys Redis refuses has an error of its
    /// own.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn outbox_lengths(
        &self,
        shards: &[Shard],
    ) -> Result<Vec<Result<u64, QueueError>>, QueueError> {
        let length = |shard: &Shard| {
            let mut length = redis::cmd("HLEN");
            length.arg(self.keys.of(shard).key("outbox"));
            length
        };
        let replies =
            script::run_idempotent(&self.connection, shards.iter().map(length).collect()).await?;
        for_each_topic(replies.into_iter().map(|reply| count(&reply?)))
    }

    /// Reads some entries of an outbox other than these.
    pub(super) async fn read_outbox(
        &self,
        shard: &Shard,
        skip: impl Iterator<Item = &Bytes>,
    ) -> Result<Reading, QueueError> {
        let mut call = OUTBOX.call(&self.keys.of(shard));
        call.arg(ENTRIES_MAX).arg(CALL_BYTES_MAX);
        for field in skip {
            call.arg(&field[..]);
        }
        let mut fields =
            array(script::run_one_idempotent(&self.connection, call).await?)?.into_iter();
        let read_at_ms = score(text(&fields.next().unwrap_or(Value::Nil))?);
        let mut entries = Vec::with_capacity(fields.len() / 2);
        while let (Some(field), Some(value)) = (fields.next(), fields.next()) {
            entries.push(Entry { field: bytes(field)?, value: bytes(value)? });
        }
        Ok(Reading { entries, not_after_ms: read_at_ms.saturating_add(millis(STALE)) })
    }

    /// Deletes entries of an outbox.
    pub(super) async fn delete_entries(
        &self,
        shard: &Shard,
        entries: &[&Bytes],
    ) -> Result<(), QueueError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut delete = redis::cmd("HDEL");
        delete.arg(self.keys.of(shard).key("outbox"));
        for entry in entries {
            delete.arg(&entry[..]);
        }
        script::run_one_idempotent(&self.connection, delete).await.map(drop)
    }

    /// Removes these follow-ups from their entries. Returns for each entry whether they are out of it:
    /// an entry of an earlier version stays as it is.
    pub(super) async fn trim_entries(
        &self,
        shard: &Shard,
        entries: &[(&Bytes, Vec<u64>)],
    ) -> Result<Vec<bool>, QueueError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut trim = TRIM_OUTBOX.call(&self.keys.of(shard));
        for (entry, numbers) in entries {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            trim.arg(&entry[..]).arg(numbers.join(" "));
        }
        let reply = array(script::run_one(&self.connection, trim).await?)?;
        reply.iter().map(|trimmed| Ok(count(trimmed)? > 0)).collect()
    }
}

impl Parcel {
    pub(super) fn bytes(&self) -> usize {
        self.dedup_record.len() + self.follow_up.bytes()
    }

    pub(super) fn add_to(&self, call: &mut Cmd) {
        let FollowUp { id, due, payload, options, .. } = &self.follow_up;
        call.arg(&self.dedup_record).arg(id.as_bytes()).arg(due.at_ms(self.acked_at_ms));
        call.arg(&payload[..]).arg(options.to_json());
    }
}

impl Entry {
    /// Its follow-ups, each with a dedup record of its own.
    pub(super) fn unpack(&self, source: &Shard) -> Result<Vec<Parcel>, String> {
        let space = self.value.iter().position(|byte| *byte == b' ');
        let (acked_at_ms, follow_ups) = space
            .and_then(|at| Some((std::str::from_utf8(&self.value[..at]).ok()?, at + 1)))
            .and_then(|(time, at)| Some((time.parse().ok()?, self.value.slice(at..))))
            .ok_or("it does not say when it was acked")?;
        let parcel = |(number, follow_up): (u64, FollowUp)| {
            let mut dedup_record = format!("{}:", source.tag()).into_bytes();
            dedup_record.extend_from_slice(&self.field);
            dedup_record.extend_from_slice(format!(":{number}").as_bytes());
            Parcel { entry: self.field.clone(), number, dedup_record, acked_at_ms, follow_up }
        };
        let decoded = FollowUp::decode(&follow_ups).map_err(|error| error.to_string())?;
        Ok(decoded.into_iter().map(parcel).collect())
    }
}
