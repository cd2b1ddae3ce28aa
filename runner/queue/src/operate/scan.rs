//! Finds topics by their keys: plain producers do not list theirs.

use duebox_job::Shard;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::text;
use crate::wire::scan;

/// Keys that Redis looks at in one step.
const SCAN_COUNT: u64 = 1_000;

/// The position of a walk through the keys of Redis. At the end it starts again.
#[derive(Debug, Clone)]
pub struct KeyScan {
    cursor: String,
}

impl Default for KeyScan {
    fn default() -> Self {
        Self { cursor: scan::START.to_owned() }
    }
}

impl KeyScan {
    /// True before the first step, and after each complete walk.
    pub fn is_at_start(&self) -> bool {
        self.cursor == scan::START
    }
}

impl Queue {
    /// Takes one step, about 1,000 keys, and returns the shards with waiting jobs that it met. A
    /// shard may be met more than once.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused; the next step is the same one then.
    pub async fn scan_pending(&self, scan: &mut KeyScan) -> Result<Vec<Shard>, QueueError> {
        let pattern = self.keys.pending_pattern();
        let (cursor, keys) =
            scan::step(&self.connection, &scan.cursor, &pattern, SCAN_COUNT).await?;
        let mut shards = Vec::new();
        for key in keys {
            shards.extend(text(&key).ok().and_then(|key| self.keys.shard_of_key(key)));
        }
        scan.cursor = cursor;
        Ok(shards)
    }
}
