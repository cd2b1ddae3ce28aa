//! The seam at which a simulation takes the place of Redis. Programs connect by an address instead.

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use redis::{Pipeline, RedisError, Value};

/// What carries commands to Redis and replies back.
pub trait Transport: Send + Sync {
    /// Sends commands in one write. Returns a reply for each; the reply of a refused command is
    /// [`Value::ServerError`].
    fn send<'t>(&'t self, commands: &'t Pipeline) -> BoxFuture<'t, Result<Vec<Value>, RedisError>>;

    /// Subscribes to every channel. Yields the channel and the text of each message, and ends with
    /// the connection.
    fn subscribe(&self) -> BoxFuture<'_, Result<BoxStream<'static, (String, String)>, RedisError>>;
}
