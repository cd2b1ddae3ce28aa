//! The key-value store of a topic.

pub(crate) mod kv;
pub(crate) mod kv_writer;
