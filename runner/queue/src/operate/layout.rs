//! Stores the version of the layout.

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
}
