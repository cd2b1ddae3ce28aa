//! What Redis says of itself.

use redis::{Pipeline, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::text;

impl Queue {
    /// The reply of `INFO everything`; in a cluster, of the first primary that replies.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn server_info(&self) -> Result<String, QueueError> {
        let mut ask = Pipeline::with_capacity(1);
        ask.cmd("INFO").arg("everything");
        let replies = self.connection.send_to_all(&ask).await?;
        let info = replies.into_iter().next().unwrap_or(Value::Nil);
        match self.connection.check(info)? {
            // Of a Redis that speaks RESP3.
            Value::VerbatimString { text, .. } => Ok(text),
            reply => Ok(text(&reply)?.to_owned()),
        }
    }
}
