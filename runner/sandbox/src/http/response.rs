//! What came back, whole, until the guest sends the next request or its job ends.

use bytes::Bytes;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    /// From 100 to 599.
    pub(crate) status: u16,
    /// Its headers as a block.
    pub(crate) head: String,
    pub(crate) body: Bytes,
}
