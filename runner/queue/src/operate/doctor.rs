//! The doctor finds what faulty producers and manual edits have left in a topic, and repairs it.
//!
//! Every key is read in pages under a cursor. One script reads, checks and repairs a page, so no
//! other client interferes; runners and producers continue meanwhile, and valid entries are not
//! touched. Without [`Checkup::repair`] nothing is written.

mod finding;
mod topics;

pub use finding::{Finding, FindingKind};

use duebox_job::{FailureClass, FollowUp, Options, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::last_attempt::LastAttempt;
use crate::wire::reply::{array, bytes, count, text, unexpected};
use crate::wire::script::{
    self, DOCTOR_BLOCKED, DOCTOR_ENDED, DOCTOR_JOBS, DOCTOR_KV, DOCTOR_OUTBOX, DOCTOR_PERMITS,
    DOCTOR_SIDE, DOCTOR_STAGE, DOCTOR_TYPES, LuaScript,
};

/// The most entries on a page.
const PAGE_MAX: u64 = 250;
/// Entries on the first page of a key: what they hold is not known yet.
const PAGE_FIRST: u64 = 4;
/// Bytes on a page, as far as the page before tells.
const PAGE_BYTES: u64 = 256 << 10;
/// Permits that one script counts.
const PERMITS_MAX: u64 = BATCH_MAX as u64;
/// Values whose bytes one script counts.
const VALUES_MAX: u64 = BATCH_MAX as u64;

/// What the doctor does with its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkup {
    /// Repair what is found; else nothing is written.
    pub repair: bool,
    /// Bury orphans; else delete them.
    pub bury_orphans: bool,
    /// Bury jobs with an invalid due time; else delete them.
    pub bury_bad_dues: bool,
}

impl Checkup {
    /// Only reports.
    pub const LOOK: Self = Self { repair: false, bury_orphans: true, bury_bad_dues: true };
    /// Repairs, and deletes no payload.
    pub const REPAIR: Self = Self { repair: true, ..Self::LOOK };
}

/// A part of a topic that was not examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unexamined {
    /// Everything: keys of a wrong type must be repaired first.
    AllButTypes,
    /// Permits: there are too many to count in one step.
    Permits,
    /// Bytes of the store: it has too many values to count in one step.
    Values,
}

impl Unexamined {
    /// The reason, as text.
    pub fn reason(self) -> &'static str {
        match self {
            Self::AllButTypes => "keys of a wrong type stand in the way of all other checks",
            Self::Permits => "more than 1000 permits are held: too many to count in one step",
            Self::Values => {
                "more than 1000 values are in the store: too many to count their bytes in one step"
            }
        }
    }
}

impl Queue {
    /// Examines a shard page by page and passes each finding to `found`. Costs about 7 µs of Redis
    /// time a job, in steps of about 1 ms. A page has at most 250 entries, and fewer where they are large.
    /// Only `turns:of` and the names of `kv` are read in one step, up to 1,000 entries. Returns what was not
    /// examined.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. The findings until then are valid, and the
    /// call can be repeated.
    pub async fn examine(
        &self,
        shard: &Shard,
        checkup: Checkup,
        found: &mut impl FnMut(Finding),
    ) -> Result<Vec<Unexamined>, QueueError> {
        let keys = self.keys.of(shard);
        let mut examination =
            ShardExamination { queue: self, topic: shard.topic(), keys, checkup, found };
        if examination.step(&DOCTOR_TYPES).await? > 0 && !checkup.repair {
            return Ok(vec![Unexamined::AllButTypes]);
        }
        let bad_due = info_if(checkup.bury_bad_dues, FailureClass::BadDue);
        for stage in ["pending", "ready", "retry", "unack"] {
            examination.pages(&DOCTOR_STAGE, &[stage, &bad_due]).await?;
        }
        examination.pages(&DOCTOR_SIDE, &["turns:of"]).await?;
        let permits =
            examination.count_unless_many(&DOCTOR_PERMITS, &[&PERMITS_MAX.to_string()]).await?;
        for part in ["blocked:at", "blocked"] {
            examination.pages(&DOCTOR_BLOCKED, &[part]).await?;
        }
        let orphan = info_if(checkup.bury_orphans, FailureClass::Orphan);
        examination.pages(&DOCTOR_JOBS, &[&orphan]).await?;
        for part in ["opts", "attempts", "errors", "unique"] {
            examination.pages(&DOCTOR_SIDE, &[part]).await?;
        }
        let unknown = LastAttempt::unknown().to_json();
        for part in ["dead:jobs", "dead", "dead:opts", "dead:info"] {
            examination.pages(&DOCTOR_ENDED, &[part, &unknown]).await?;
        }
        for part in ["done", "done:jobs", "done:info", "done:result"] {
            examination.pages(&DOCTOR_ENDED, &[part, &unknown]).await?;
        }
        examination.outbox().await?;
        for part in ["kv:rev", "kv:at"] {
            examination.pages(&DOCTOR_KV, &[part]).await?;
        }
        let values =
            examination.count_unless_many(&DOCTOR_KV, &["bytes", &VALUES_MAX.to_string()]).await?;
        let left_out = [(permits, Unexamined::Permits), (values, Unexamined::Values)];
        Ok(left_out
            .into_iter()
            .filter(|(is_counted, _)| !is_counted)
            .map(|(_, what)| what)
            .collect())
    }
}

/// What a job keeps that the doctor buries; empty if it deletes such jobs.
fn info_if(is_buried: bool, class: FailureClass) -> String {
    if is_buried { LastAttempt::without_attempt(class).to_json() } else { String::new() }
}

/// The examination of one shard.
struct ShardExamination<'q, F> {
    queue: &'q Queue,
    topic: &'q TopicName,
    keys: ShardKeys,
    checkup: Checkup,
    found: &'q mut F,
}

/// How many entries the next page may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PageSize(u64);

impl PageSize {
    const FIRST: Self = Self(PAGE_FIRST);

    /// The size after a page of this size that had so many bytes.
    fn after(self, bytes: u64) -> Self {
        let fitting = self.0.saturating_mul(PAGE_BYTES) / bytes.max(1);
        Self(fitting.min(self.0 * 2).clamp(1, PAGE_MAX))
    }
}

impl<F: FnMut(Finding)> ShardExamination<'_, F> {
    /// Examines all pages of a key.
    async fn pages(
        &mut self,
        script: &'static LuaScript,
        extra: &[&str],
    ) -> Result<(), QueueError> {
        let (mut cursor, mut size) = ("0".to_owned(), PageSize::FIRST);
        loop {
            let reply = self.call(script, (&cursor, size), extra).await?;
            cursor = text(reply.first().unwrap_or(&Value::Nil))?.to_owned();
            size = size.after(count(reply.get(1).unwrap_or(&Value::Nil))?);
            self.report_all(reply)?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Runs a step without pages; returns the number of findings.
    async fn step(&mut self, script: &'static LuaScript) -> Result<usize, QueueError> {
        let reply = self.call(script, ("0", PageSize::FIRST), &[]).await?;
        self.report_all(reply)
    }

    /// Runs a step that counts something, unless there is too much of it.
    async fn count_unless_many(
        &mut self,
        script: &'static LuaScript,
        extra: &[&str],
    ) -> Result<bool, QueueError> {
        let reply = self.call(script, ("0", PageSize::FIRST), extra).await?;
        let is_counted = text(reply.first().unwrap_or(&Value::Nil))? != "many";
        self.report_all(reply)?;
        Ok(is_counted)
    }

    async fn call(
        &self,
        script: &'static LuaScript,
        (cursor, size): (&str, PageSize),
        extra: &[&str],
    ) -> Result<Vec<Value>, QueueError> {
        let mut call = script.call(&self.keys);
        call.arg(cursor).arg(size.0).arg(u8::from(self.checkup.repair)).arg(extra);
        array(script::run_one_idempotent(&self.queue.connection, call).await?)
    }

    /// Reports the findings of a reply, which follow its first two fields.
    fn report_all(&mut self, reply: Vec<Value>) -> Result<usize, QueueError> {
        let mut fields = reply.into_iter().skip(2);
        let mut reported = 0;
        while let (Some(kind), Some(subject), Some(detail), Some(done)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        {
            let (subject, detail) = (bytes(subject)?, bytes(detail)?);
            let (kind, detail) = match text(&kind)? {
                // Only Rust can check options.
                "options" => match Options::from_json(&detail) {
                    Ok(_) => continue,
                    Err(error) => (FindingKind::BadOptions, error.to_string()),
                },
                word => {
                    let kind = FindingKind::read(word).ok_or_else(|| unexpected(&kind))?;
                    (kind, String::from_utf8_lossy(&detail).into_owned())
                }
            };
            let done = text(&done)?.to_owned();
            self.report(Finding { topic: self.topic.to_string(), kind, subject, detail, done });
            reported += 1;
        }
        Ok(reported)
    }

    fn report(&mut self, finding: Finding) {
        (self.found)(finding);
    }

    /// Finds outbox entries that the relay cannot read.
    async fn outbox(&mut self) -> Result<(), QueueError> {
        let (mut cursor, mut size) = ("0".to_owned(), PageSize::FIRST);
        loop {
            let mut scan = redis::cmd("HSCAN");
            scan.arg(self.keys.key("outbox")).arg(&cursor).arg("COUNT").arg(size.0);
            let mut page =
                array(script::run_one_idempotent(&self.queue.connection, scan).await?)?.into_iter();
            cursor = text(&page.next().unwrap_or(Value::Nil))?.to_owned();
            let mut entries = array(page.next().unwrap_or(Value::Nil))?.into_iter();
            let mut read = 0;
            while let (Some(field), Some(value)) = (entries.next(), entries.next()) {
                let value = bytes(value)?;
                read += value.len() as u64;
                self.outbox_entry(bytes(field)?, value).await?;
            }
            size = size.after(read);
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn outbox_entry(
        &mut self,
        field: bytes::Bytes,
        value: bytes::Bytes,
    ) -> Result<(), QueueError> {
        let Err(detail) = check_outbox(&field, &value) else { return Ok(()) };
        let mut done = String::new();
        if self.checkup.repair {
            let mut call = DOCTOR_OUTBOX.call(&self.keys);
            call.arg(&field[..]).arg(&value[..]);
            let reply = array(script::run_one_idempotent(&self.queue.connection, call).await?)?;
            if let [broken, Value::Int(1)] = reply.as_slice() {
                done = format!("moved to {}", text(broken)?);
            }
        }
        let (topic, kind) = (self.topic.to_string(), FindingKind::BadOutbox);
        self.report(Finding { topic, kind, subject: field, detail, done });
        Ok(())
    }
}

/// An outbox entry: field `<token>:<id>`, value `<unix ms of the ack> <follow-ups>`.
fn check_outbox(field: &[u8], value: &bytes::Bytes) -> Result<(), String> {
    let token = field.split(|byte| *byte == b':').next().unwrap_or_default();
    if token.is_empty() || !token.iter().all(u8::is_ascii_digit) || token.len() == field.len() {
        return Err("its name is not a token and id".to_owned());
    }
    let space = value.iter().position(|byte| *byte == b' ');
    let Some((acked, from)) = space.map(|at| (&value[..at], at + 1)) else {
        return Err("it has no time".to_owned());
    };
    if acked.is_empty() || !acked.iter().all(u8::is_ascii_digit) {
        return Err("its time is not a unix time".to_owned());
    }
    FollowUp::decode(&value.slice(from..)).map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shrinks_at_once_and_grows_slowly() {
        let mut size = PageSize::FIRST;
        for _ in 0..10 {
            size = size.after(100 * size.0);
        }
        assert_eq!(size, PageSize(PAGE_MAX));
        assert_eq!(size.after(PAGE_MAX * PAGE_BYTES), PageSize(1));
        assert_eq!(PageSize(1).after(64 << 20), PageSize(1));
        assert_eq!(PageSize(1).after(0), PageSize(2));
    }

    #[test]
    fn outbox_entries_are_read_as_the_relay_does() {
        let check = |field: &str, value: &'static [u8]| {
            check_outbox(field.as_bytes(), &bytes::Bytes::from_static(value))
        };
        let field = "1763740800000000:4:2";
        let good = b"1763740800000 1 2 {\"topic\":\"a\",\"id\":\"1\"}\n\x00\n";
        assert_eq!(check(field, good), Ok(()));
        assert_eq!(check(field, br#"1763740800000 [{"topic":"a","id":"1"}]"#), Ok(()));
        for (field, value, why) in [
            ("42", "1 []", "token and id"),
            ("x:1", "1 []", "token and id"),
            ("1:1", "", "no time"),
            ("1:1", "soon []", "unix time"),
            ("1:1", "1 [{}]", "topic"),
        ] {
            let error = check(field, value.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{field} {value}: {error}");
        }
    }
}
