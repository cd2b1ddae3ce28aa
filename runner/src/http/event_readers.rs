//! How many readers of job events there may be at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of readers.
pub(super) const READERS_MAX: usize = 32;

/// Limits the number of readers.
pub(crate) struct EventReaders(Arc<Semaphore>);

impl Default for EventReaders {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(READERS_MAX)))
    }
}

impl EventReaders {
    /// A place for one more reader, until it is dropped; `None` if there are [`READERS_MAX`].
    pub(super) fn admit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}
