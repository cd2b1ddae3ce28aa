//! A task that ends with its owner.

use tokio::task::JoinHandle;

/// Aborts the task when it is dropped.
pub(super) struct AbortOnDrop(pub(super) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
