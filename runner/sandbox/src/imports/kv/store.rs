//! The interface of a key-value store: small values under keys, stored outside of the sandbox. Each call is
//! one atomic operation.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use futures_util::future::BoxFuture;

/// The longest key, in bytes. The shortest has 1 byte.
pub const KV_KEY_MAX: usize = 256;
/// The largest value, in bytes.
pub const KV_VALUE_MAX: usize = 64 << 10;
/// How many keys one topic may have.
pub const KV_KEYS_MAX: usize = 100_000;
/// Bytes of all keys and values of one topic together.
pub const KV_BYTES_MAX: usize = 64 << 20;
/// The longest ttl of a value that expires: 10 years.
pub const KV_TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Stores the values of topics. All shards of a topic share one store.
///
/// The caller has checked that a key has 1 to [`KV_KEY_MAX`] bytes, and a value at most [`KV_VALUE_MAX`]. A
/// call may be dropped before it ends. It then has taken effect, or not.
pub trait KeyValue: Send + Sync {
    /// The value of a key. `None` if it has none, or the value has expired.
    ///
    /// # Errors
    /// [`KvError::Unavailable`] if the store cannot be reached.
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<KvEntry>, KvError>>;

    /// Writes a value if the condition is true, and returns whether it was. A ttl of `None` means that the
    /// value does not expire. Any other is 1 ms to [`KV_TTL_MAX`].
    ///
    /// # Errors
    /// [`KvError::Full`] if the topic has no room, [`KvError::Unavailable`] if the store cannot be reached.
    fn set<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> BoxFuture<'a, Result<bool, KvError>>;

    /// Deletes a value, and returns whether there was one.
    ///
    /// # Errors
    /// [`KvError::Unavailable`] if the store cannot be reached.
    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>>;

    /// Adds to a number and returns the sum. The number is stored as decimal text. A missing value counts
    /// as 0. The ttl does not change.
    ///
    /// # Errors
    /// [`KvError::NotANumber`] if the value is not a number or the sum overflows, [`KvError::Full`] if the
    /// topic has no room, [`KvError::Unavailable`] if the store cannot be reached.
    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>>;
}

/// A value and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The value.
    pub value: Bytes,
    /// The revision. Each write of a key has a different one.
    pub revision: u64,
}

/// When a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvCondition {
    /// In any case.
    Always,
    /// If the key has no value.
    IfAbsent,
    /// If the key's value has this revision.
    IfRevision(u64),
}

/// Why a call had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The topic has reached [`KV_KEYS_MAX`] or [`KV_BYTES_MAX`].
    #[error("the topic's store is full")]
    Full,
    /// The value of an `add` is not a 64-bit integer, or the sum is out of range.
    #[error("the value is not an integer, or the sum exceeds 64 bits")]
    NotANumber,
    /// The store cannot be reached.
    #[error("the store cannot be reached: {0}")]
    Unavailable(String),
}
