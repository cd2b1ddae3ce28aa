//! What Redis says of itself.

use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::text;
use crate::wire::script;

impl Queue {
    /// The reply of `INFO everything`; of one server if there are several.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn server_info(&self) -> Result<String, QueueError> {
        let mut info = redis::cmd("INFO");
        info.arg("everything");
        match script::run_one_idempotent(&self.connection, info).await? {
            // Of a Redis that speaks RESP3.
            Value::VerbatimString { text, .. } => Ok(text),
            reply => Ok(text(&reply)?.to_owned()),
        }
    }
}
