//! Pages of ended jobs, by the time of their end: the dead and the done.
//!
//! A page starts after the last entry of the page before, whether that entry still exists or not. So
//! a walk meets every job that stays, and none twice, whatever else changes. A page costs O(log n)
//! and at most [`BATCH_MAX`] entries in each shard.

use std::fmt;
use std::str::FromStr;

use duebox_job::{FailureClass, JobId, Shard, TopicName};
use redis::Value;
use serde::Serialize;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::{BATCH_MAX, TIME_MAX};
use crate::wire::reply::{array, bytes, count, info_value, score, text, unexpected};
use crate::wire::script::{self, LIST};

/// Selects the jobs of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Jobs that ended at this time or later, unix ms.
    pub since_ms: Option<u64>,
    /// Jobs that ended at this time or before, unix ms.
    pub until_ms: Option<u64>,
    /// The end of the span that comes first.
    pub order: PageOrder,
    /// The end of the page before; none for the first page.
    pub after: Option<Cursor>,
    /// Jobs on a page, 1 to [`BATCH_MAX`]; other values are moved to the nearest bound.
    pub limit: usize,
}

/// Selects the dead jobs of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadQuery {
    /// Only jobs of this class. A page looks at [`BATCH_MAX`] dead jobs at most, so for a rare class
    /// it may be empty and still have a next page.
    pub class: Option<FailureClass>,
    /// The span, the order and the size.
    pub page: PageQuery,
}

/// The order of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageOrder {
    /// The latest end first.
    #[default]
    Newest,
    /// The earliest end first.
    Oldest,
}

/// Where a page ended. Cursors are ordered by time, then by id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    ended_at_ms: u64,
    id: JobId,
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cursor; give the one that the page before ended with")]
pub struct CursorError(String);

/// One page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The jobs, in the order of the query.
    pub jobs: Vec<T>,
    /// The start of the next page; none after the last.
    pub next: Option<Cursor>,
}

/// A dead job in a list; [`Queue::get`](crate::Queue::get) returns all of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadSummary {
    /// Its id, as text.
    #[serde(serialize_with = "as_text")]
    pub id: JobId,
    /// When it died, unix ms.
    pub died_at_ms: u64,
    /// Its failure class; none if it cannot be read.
    pub class: Option<String>,
    /// The reason, as text.
    pub reason: Option<String>,
    /// The attempt it died in, if any.
    pub attempt: Option<u64>,
}

/// A done job in a list; [`Queue::get`](crate::Queue::get) returns all of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DoneSummary {
    /// Its id, as text.
    #[serde(serialize_with = "as_text")]
    pub id: JobId,
    /// When it was done, unix ms.
    pub done_at_ms: u64,
    /// The attempt that succeeded.
    pub attempt: Option<u64>,
    /// How long that attempt ran, in ms.
    pub wall_ms: Option<f64>,
}

/// An entry of the script's reply.
struct Entry {
    id: JobId,
    ended_at_ms: u64,
    info: serde_json::Value,
}

impl Entry {
    fn cursor(&self) -> Cursor {
        Cursor::new(self.ended_at_ms, self.id.clone())
    }
}

impl Cursor {
    /// The cursor at a job.
    pub fn new(ended_at_ms: u64, id: JobId) -> Self {
        Self { ended_at_ms, id }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ended_at_ms, self.id)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let error = || CursorError(text.to_owned());
        let (time, id) = text.split_once(':').ok_or_else(error)?;
        let ended_at_ms: u64 = time.parse().map_err(|_| error())?;
        if id.is_empty() || ended_at_ms > TIME_MAX {
            return Err(error());
        }
        Ok(Self { ended_at_ms, id: JobId::from_redis(id.to_owned()) })
    }
}

impl Queue {
    /// A page of dead jobs. With a class it looks at [`BATCH_MAX`] of them at most.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn list_dead(
        &self,
        topic: &TopicName,
        query: &DeadQuery,
    ) -> Result<Page<DeadSummary>, QueueError> {
        let class = query.class.map_or("", FailureClass::name);
        let page = self.page(topic, "dead", class, &query.page).await?;
        let summary = |Entry { id, ended_at_ms, info }| DeadSummary {
            id,
            died_at_ms: ended_at_ms,
            class: info["class"].as_str().map(str::to_owned),
            reason: info["reason"].as_str().map(str::to_owned),
            attempt: info["attempt"].as_u64(),
        };
        Ok(Page { jobs: page.jobs.into_iter().map(summary).collect(), next: page.next })
    }

    /// A page of done jobs.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn list_done(
        &self,
        topic: &TopicName,
        query: &PageQuery,
    ) -> Result<Page<DoneSummary>, QueueError> {
        let page = self.page(topic, "done", "", query).await?;
        let summary = |Entry { id, ended_at_ms, info }| DoneSummary {
            id,
            done_at_ms: ended_at_ms,
            attempt: info["attempt"].as_u64(),
            wall_ms: info["wall_ms"].as_f64(),
        };
        Ok(Page { jobs: page.jobs.into_iter().map(summary).collect(), next: page.next })
    }

    async fn page(
        &self,
        topic: &TopicName,
        list: &str,
        class: &str,
        query: &PageQuery,
    ) -> Result<Page<Entry>, QueueError> {
        let shards = self.shards(topic).await?;
        let call = |shard: Shard| {
            let mut call = LIST.call(&self.keys.of(&shard));
            call.arg(list).arg(query.order.word()).arg(class);
            call.arg(query.since_ms.unwrap_or(0).min(TIME_MAX));
            call.arg(query.until_ms.unwrap_or(TIME_MAX).min(TIME_MAX));
            match &query.after {
                Some(cursor) => call.arg(cursor.ended_at_ms).arg(cursor.id.as_bytes()),
                None => call.arg("").arg(""),
            };
            call.arg(query.limit.clamp(1, BATCH_MAX));
            call
        };
        let replies =
            script::run_idempotent(&self.connection, shards.all().map(call).collect()).await?;
        let mut pages = Vec::with_capacity(replies.len());
        for reply in replies {
            pages.push(Page::read(array(reply?)?)?);
        }
        Ok(Page::merge(pages, query))
    }
}

impl PageOrder {
    fn word(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
        }
    }
}

impl Page<Entry> {
    /// Merges the pages of all shards. The merged page ends where the first of them ends that has a
    /// next one: nothing is known of what that shard holds later.
    fn merge(mut pages: Vec<Self>, query: &PageQuery) -> Self {
        if pages.len() == 1 {
            return pages.remove(0);
        }
        let is_before = |one: &Cursor, other: &Cursor| match query.order {
            PageOrder::Newest => one > other,
            PageOrder::Oldest => one < other,
        };
        let earlier =
            |one: Cursor, other: Cursor| if is_before(&other, &one) { other } else { one };
        let end = pages.iter_mut().filter_map(|page| page.next.take()).reduce(earlier);
        let mut jobs: Vec<Entry> = pages.into_iter().flat_map(|page| page.jobs).collect();
        jobs.retain(|job| end.as_ref().is_none_or(|end| !is_before(end, &job.cursor())));
        jobs.sort_by_key(Entry::cursor);
        if query.order == PageOrder::Newest {
            jobs.reverse();
        }
        let limit = query.limit.clamp(1, BATCH_MAX);
        let next = match jobs.get(limit - 1) {
            Some(last) if jobs.len() > limit => Some(last.cursor()),
            _ => end,
        };
        jobs.truncate(limit);
        Self { jobs, next }
    }

    fn read(fields: Vec<Value>) -> Result<Self, QueueError> {
        if !fields.len().is_multiple_of(3) || fields.is_empty() {
            return Err(unexpected(&Value::Array(fields)));
        }
        let mut jobs = Vec::with_capacity(fields.len() / 3);
        let mut fields = fields.into_iter();
        let mut next = || fields.next().ok_or_else(|| QueueError::BadReply("cut short".to_owned()));
        let has_more = count(&next()?)? > 0;
        let last = Cursor::new(score(text(&next()?)?), JobId::from_redis(bytes(next()?)?));
        for _ in 1..jobs.capacity() {
            let id = JobId::from_redis(bytes(next()?)?);
            let ended_at_ms = score(text(&next()?)?);
            jobs.push(Entry { id, ended_at_ms, info: info_value(&bytes(next()?)?) });
        }
        Ok(Self { jobs, next: has_more.then_some(last) })
    }
}

fn as_text<S: serde::Serializer>(id: &JobId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let cursor = Cursor::new(1_795_262_401_000, JobId::from_redis("a:b"));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", ":", "1:", "x:a", "1", "-1:a", "9999999999999999:a"] {
            assert_eq!(text.parse::<Cursor>(), Err(CursorError(text.to_owned())), "{text}");
        }
    }
}
