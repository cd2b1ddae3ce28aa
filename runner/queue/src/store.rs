//! The key-value store of a topic.

pub(crate) mod kv;
