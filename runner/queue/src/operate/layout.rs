//! Stores the version of the layout.

use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::LAYOUT;
use crate::wire::layout::check_layout;
use crate::wire::script;

impl Queue {
    /// Stores the version of the layout, unless one is stored. It is a command that writes: an error also
    /// tells that Redis does not write, because it is a replica or out of memory.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused; [`QueueError::Layout`] if the stored version is not
    /// one that this program knows.
    pub async fn declare_layout(&self) -> Result<(), QueueError> {
        let mut declare = redis::cmd("SET");
        declare.arg(self.keys.layout_key()).arg(LAYOUT).arg("NX").arg("GET");
        check_layout(&script::run_one_idempotent(&self.connection, declare).await?)
    }

    /// The same without a write if a version is stored, so that a user who may only read connects, too.
    pub(crate) async fn find_layout(&self) -> Result<(), QueueError> {
        let mut read = redis::cmd("GET");
        read.arg(self.keys.layout_key());
        match script::run_one_idempotent(&self.connection, read).await? {
            Value::Nil => self.declare_layout().await,
            stored => check_layout(&stored),
        }
    }
}
