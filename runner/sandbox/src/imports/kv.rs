//! The key-value store of a topic: the imports `kv_*`, and the interface of what implements the store.

mod calls;
mod memory;
mod revisions;
pub(super) mod store;

pub(crate) use self::calls::{HasKv, IMPORTS, PREFIX, link};
pub use self::memory::MemoryKv;
pub(crate) use self::revisions::SeenRevisions;
pub use self::store::{
    KV_BYTES_MAX, KV_KEY_MAX, KV_KEYS_MAX, KV_TTL_MAX, KV_VALUE_MAX, KeyValue, KvCondition,
    KvEntry, KvError,
};
