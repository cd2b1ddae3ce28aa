//! What came back, whole, until the guest sends the next request or its job ends.

use bytes::Bytes;

use crate::memory_budget::Share;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    /// From 100 to 599.
    pub(crate) status: u16,
    /// Its headers as a block.
    pub(crate) head: String,
    pub(crate) body: Bytes,
    /// What head and body hold of the memory of all guests.
    pub(crate) _held: Share,
}
