//! Pages of the jobs of one state, selected by the start of their id and by a header.
//!
//! A page starts after the last entry of the page before, whether that entry still exists or not. A page
//! costs O(log n) and looks at [`BATCH_MAX`] entries in each shard at most, whatever the selection. A job
//! that changes its state meanwhile may be met twice, or not at all.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use duebox_job::{JobId, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::job::JobState;
use crate::operate::list_live::id_and_time;
use crate::wire::attempts::Attempts;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, bytes, count, info_value, score, text, unexpected};
use crate::wire::script::{self, LIST_STATE};

/// Selects the jobs of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobQuery {
    /// Their state. No list has the ids that are only held.
    pub state: JobState,
    /// Jobs whose id starts with these bytes; empty for all.
    pub id_start: String,
    /// Jobs that have this header with this value. Done jobs keep no headers.
    pub header: Option<(String, String)>,
    /// The end of the page before; none for the first page.
    pub after: Option<ListCursor>,
    /// Jobs on a page, 1 to [`BATCH_MAX`]; other values are moved to the nearest bound.
    pub limit: usize,
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCursor {
    score: String,
    member: Bytes,
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor; give the one that the page before ended with")]
pub struct ListCursorError(String);

/// A job in a list; [`Queue::get`](crate::Queue::get) returns all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedJob {
    /// Its id.
    pub id: JobId,
    /// Its due time, or that of its next attempt; of a leased job the end of its lease; of an ended job
    /// its end. Unix ms.
    pub at_ms: u64,
    /// Of a live job: attempts that have failed so far.
    pub failures: u32,
    /// Of a live job: runs that ended with the death of the runner or a lost lease.
    pub crashes: u32,
    /// The failure class of its last attempt, if that failed.
    pub class: Option<String>,
    /// Why its last attempt failed.
    pub reason: Option<String>,
    /// The attempt that `class` and `reason` describe, or that acked a done job.
    pub attempt: Option<u64>,
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedJobs {
    /// The jobs: the next ones first, of dead and done jobs the latest.
    pub jobs: Vec<ListedJob>,
    /// The start of the next page; none after the last. A selection may leave a page short, or empty, that
    /// has a next one.
    pub next: Option<ListCursor>,
    /// How many jobs of the state the page looked at.
    pub looked_at: u64,
}

/// An entry of the script's reply.
struct PlacedJob {
    at: ListCursor,
    job: ListedJob,
}

/// The reply of one shard.
struct ShardPage {
    entries: Vec<PlacedJob>,
    next: Option<ListCursor>,
    looked_at: u64,
}

impl JobQuery {
    /// All jobs of a state, [`BATCH_MAX`] on a page.
    pub fn new(state: JobState) -> Self {
        Self { state, id_start: String::new(), header: None, after: None, limit: BATCH_MAX }
    }

    /// Whether the state is listed from its highest score.
    fn is_newest_first(&self) -> bool {
        matches!(self.state, JobState::Dead | JobState::Done)
    }

    /// Which of two places comes first on a page.
    fn compare(&self, one: &ListCursor, other: &ListCursor) -> Ordering {
        let ordering =
            one.score().total_cmp(&other.score()).then_with(|| one.member.cmp(&other.member));
        if self.is_newest_first() { ordering.reverse() } else { ordering }
    }
}

impl ListCursor {
    fn score(&self) -> f64 {
        self.score.parse().unwrap_or(0.0)
    }
}

/// The score and the member in base64: members may hold any bytes.
impl fmt::Display for ListCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = [self.score.as_bytes(), b":", &self.member].concat();
        f.write_str(&URL_SAFE_NO_PAD.encode(place))
    }
}

impl FromStr for ListCursor {
    type Err = ListCursorError;

    fn from_str(written: &str) -> Result<Self, ListCursorError> {
        let error = || ListCursorError(written.to_owned());
        let place = Bytes::from(URL_SAFE_NO_PAD.decode(written).map_err(|_| error())?);
        let colon = place.iter().position(|byte| *byte == b':').ok_or_else(error)?;
        let score = std::str::from_utf8(&place[..colon]).map_err(|_| error())?;
        let number: f64 = score.parse().map_err(|_| error())?;
        if number.is_nan() || colon + 1 == place.len() {
            return Err(error());
        }
        Ok(Self { score: score.to_owned(), member: place.slice(colon + 1..) })
    }
}

impl Queue {
    /// A page of the jobs of one state. It looks at [`BATCH_MAX`] of them in each shard at most.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused, as it does for headers of done jobs.
    pub async fn list_state(
        &self,
        topic: &TopicName,
        query: &JobQuery,
    ) -> Result<ListedJobs, QueueError> {
        if query.state == JobState::Held {
            return Ok(ListedJobs { jobs: Vec::new(), next: None, looked_at: 0 });
        }
        let shards = self.shards(topic).await?;
        let call = |shard: Shard| {
            let mut call = LIST_STATE.call(&self.keys.of(&shard));
            call.arg(query.state.word());
            match &query.after {
                Some(cursor) => call.arg(&cursor.score).arg(&cursor.member[..]),
                None => call.arg("").arg(""),
            };
            call.arg(query.limit.clamp(1, BATCH_MAX)).arg(&query.id_start);
            let header = query.header.as_ref();
            let (name, value) = header.map_or(("", ""), |(name, value)| (name, value));
            call.arg(name).arg(value);
            call
        };
        let replies =
            script::run_idempotent(&self.connection, shards.all().map(call).collect()).await?;
        let mut pages = Vec::with_capacity(replies.len());
        for reply in replies {
            pages.push(ShardPage::read(query.state, array(reply?)?)?);
        }
        Ok(merge(pages, query))
    }
}

/// Merges the pages of all shards. The merged page ends where the first of them ends that has a next one:
/// nothing is known of what that shard holds later.
fn merge(mut pages: Vec<ShardPage>, query: &JobQuery) -> ListedJobs {
    let looked_at = pages.iter().map(|page| page.looked_at).sum();
    let ends = pages.iter_mut().filter_map(|page| page.next.take());
    let end = ends.min_by(|one, other| query.compare(one, other));
    let mut entries: Vec<PlacedJob> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.retain(|entry| {
        end.as_ref().is_none_or(|end| query.compare(&entry.at, end) != Ordering::Greater)
    });
    entries.sort_by(|one, other| query.compare(&one.at, &other.at));
    let limit = query.limit.clamp(1, BATCH_MAX);
    let next = match entries.get(limit - 1) {
        Some(last) if entries.len() > limit => Some(last.at.clone()),
        _ => end,
    };
    entries.truncate(limit);
    ListedJobs { jobs: entries.into_iter().map(|entry| entry.job).collect(), next, looked_at }
}

impl ShardPage {
    fn read(state: JobState, fields: Vec<Value>) -> Result<Self, QueueError> {
        if !fields.len().is_multiple_of(4) || fields.is_empty() {
            return Err(unexpected(&Value::Array(fields)));
        }
        let listed = fields.len() / 4 - 1;
        let mut entries = Vec::with_capacity(listed);
        let mut fields = fields.into_iter();
        let mut next = || fields.next().ok_or_else(|| QueueError::BadReply("cut short".to_owned()));
        let has_more = count(&next()?)? > 0;
        let last = ListCursor { score: text(&next()?)?.to_owned(), member: bytes(next()?)? };
        let looked_at = count(&next()?)?;
        for _ in 0..listed {
            let (member, number) = (bytes(next()?)?, next()?);
            let number = text(&number)?.to_owned();
            let attempts = Attempts::unpack(score(text(&next()?)?));
            let info = bytes(next()?)?;
            let (id, at_ms) = id_and_time(state, &member, &number);
            let job = ListedJob::new(JobId::from_redis(id.to_vec()), at_ms, attempts, &info);
            entries.push(PlacedJob { at: ListCursor { score: number, member }, job });
        }
        Ok(Self { entries, next: has_more.then_some(last), looked_at })
    }
}

impl ListedJob {
    fn new(id: JobId, at_ms: u64, attempts: Attempts, info: &[u8]) -> Self {
        let info = if info.is_empty() { serde_json::Value::Null } else { info_value(info) };
        Self {
            id,
            at_ms,
            failures: attempts.failures,
            crashes: attempts.crashes,
            class: info["class"].as_str().map(str::to_owned),
            reason: info["reason"].as_str().map(str::to_owned),
            attempt: info["attempt"].as_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for (score, member) in [("-1763740800000", &b"a:b"[..]), ("0", b"k\x001\x002\x00id\xff")] {
            let cursor =
                ListCursor { score: score.to_owned(), member: Bytes::copy_from_slice(member) };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        let encoded = |place: &str| URL_SAFE_NO_PAD.encode(place);
        for text in [String::new(), "?".to_owned(), encoded("1"), encoded("x:a"), encoded("1:")] {
            assert_eq!(text.parse::<ListCursor>(), Err(ListCursorError(text.clone())), "{text}");
        }
        assert!(encoded("nan:a").parse::<ListCursor>().is_err());
    }
}
