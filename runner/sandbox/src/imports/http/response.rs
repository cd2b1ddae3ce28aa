//! A complete response. It is kept until the guest sends the next request, or its job ends.

use bytes::Bytes;

use crate::memory_budget::MemoryReservation;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    /// From 100 to 599.
    pub(crate) status: u16,
    /// The headers as a block.
    pub(crate) head: String,
    pub(crate) body: Bytes,
    /// What head and body hold of the memory budget.
    pub(crate) _memory: MemoryReservation,
}
