//! The connection for commands of the caller's own, as the redis crate expects one (feature `redis-connection`).

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, RedisResult, Value};

use crate::wire::connection::Connection;

/// One server that holds keys: the only one, or a primary of a cluster. It is for commands that are about the server
/// and not about keys. They may be sent twice.
#[derive(Clone)]
pub(crate) struct Primary {
    pub(crate) connection: Connection,
    /// Its number among the primaries.
    pub(crate) number: usize,
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(send_one(self, command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let replies = self.send_for(commands, offset..offset + count).await;
            Ok(replies.map_err(|error| std::io::Error::other(error.to_string()))?)
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

impl ConnectionLike for Primary {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(send_one(self, command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let values = self.connection.send_to(self.number, commands).await;
            let values = values.map_err(|error| std::io::Error::other(error.to_string()))?;
            Ok(values.into_iter().skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// Sends a command as a pipeline of one.
async fn send_one(
    connection: &mut (impl ConnectionLike + Send),
    command: &Cmd,
) -> RedisResult<Value> {
    let mut commands = Pipeline::with_capacity(1);
    commands.add_command(command.clone());
    let mut values = connection.req_packed_commands(&commands, 0, 1).await?;
    Ok(values.pop().unwrap_or(Value::Nil))
}
