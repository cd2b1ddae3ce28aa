//! The store of a topic as the host sees it: small values under keys, kept outside of the sandbox. What
//! keeps them is not known here; each call is one atomic step there.

mod calls;
mod memory;
mod seen;

use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use futures_util::future::BoxFuture;

pub(crate) use self::calls::{IMPORTS, PREFIX, link};
pub use self::memory::MemoryKv;
pub(crate) use self::seen::Seen;

/// The longest key, in bytes; it has at least one.
pub const KEY_MAX: usize = 256;
/// The largest value, in bytes.
pub const VALUE_MAX: usize = 64 << 10;
/// Keys that one topic may hold.
pub const KEYS_MAX: usize = 100_000;
/// What the keys and values of one topic may take together, in bytes.
pub const BYTES_MAX: usize = 64 << 20;
/// The longest time that a value can be kept for, if not for ever: 10 years.
pub const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What keeps the values of topics: those of all shards of a topic together. A key has 1 to [`KEY_MAX`]
/// bytes and a value at most [`VALUE_MAX`]; who calls has checked that. A call may be dropped before it
/// ends, and has then happened or not.
pub trait KeyValue: Send + Sync {
    /// The value under a key; none if there is none, or its time is over.
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Entry>, KvError>>;

    /// Writes a value if the condition holds, and answers whether it did. A ttl of `None` keeps it for
    /// ever; any other is 1 ms to [`TTL_MAX`].
    fn set<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
        condition: Condition,
    ) -> BoxFuture<'a, Result<bool, KvError>>;

    /// Forgets a value, and answers whether there was one.
    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>>;

    /// Adds to a number, which is kept as decimal text and is 0 where there is none; its ttl stays.
    /// Answers the new number.
    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>>;
}

/// A value, and which writing of its key it is: no two writings of a key have the same revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// Its revision.
    pub revision: u64,
}

/// When a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// If the key has no value.
    IfAbsent,
    /// If the key's value has this revision.
    IfRevision(u64),
}

/// Why a call did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The topic holds as much as it may: [`KEYS_MAX`], [`BYTES_MAX`].
    #[error("the topic's store is full")]
    Full,
    /// `add` met a value that is no whole number of 64 bits, or would leave their range.
    #[error("the value is no number that the sum fits into")]
    NotANumber,
    /// The store cannot be reached.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
}
