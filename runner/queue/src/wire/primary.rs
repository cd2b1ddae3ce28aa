//! One server that holds keys: the only one, or a primary of a cluster.

use redis::{Cmd, Pipeline, Value};

use crate::wire::connection::Connection;

/// A connection to one server, for commands of the caller's own that are about the server and not about keys. They may
/// be sent twice.
#[derive(Clone)]
pub(crate) struct Primary {
    pub(crate) connection: Connection,
    /// Its number among the primaries.
    pub(crate) number: usize,
}

impl redis::aio::ConnectionLike for Primary {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> redis::RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut commands = Pipeline::with_capacity(1);
            commands.add_command(command.clone());
            let mut values = self.req_packed_commands(&commands, 0, 1).await?;
            Ok(values.pop().unwrap_or(Value::Nil))
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> redis::RedisFuture<'a, Vec<Value>> {
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
