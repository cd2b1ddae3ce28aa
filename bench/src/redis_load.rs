//! What Redis was asked and what that cost, from its own INFO.

use anyhow::Context;
use redis::aio::ConnectionLike;

/// Counters of a Redis since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RedisLoad {
    /// CPU time, s.
    pub(crate) cpu_s: f64,
    /// Commands executed, those inside scripts included.
    pub(crate) commands: u64,
    /// Reads from client sockets: at least one per round trip, several for a long pipeline.
    pub(crate) reads: u64,
    /// Memory in use without the clients' buffers, bytes.
    pub(crate) memory: u64,
}

impl RedisLoad {
    /// Queries INFO. The next query counts this one: one read and one command.
    pub(crate) async fn of(
        connection: &mut (impl ConnectionLike + Send + Sync),
    ) -> anyhow::Result<Self> {
        let mut info = redis::cmd("INFO");
        info.arg("cpu").arg("stats").arg("commandstats").arg("memory");
        let text: String = info.query_async(connection).await?;
        Self::read(&text)
    }

    fn read(text: &str) -> anyhow::Result<Self> {
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            found.with_context(|| format!("INFO has no {name}"))
        };
        let calls = text.lines().filter_map(|line| {
            let (_, counts) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            counts.split(',').next()?.parse::<u64>().ok()
        });
        Ok(Self {
            cpu_s: field("used_cpu_user")?.parse::<f64>()?
                + field("used_cpu_sys")?.parse::<f64>()?,
            commands: calls.sum(),
            reads: field("total_reads_processed")?.parse()?,
            memory: field("used_memory")?
                .parse::<u64>()?
                .saturating_sub(field("mem_clients_normal")?.parse()?),
        })
    }

    /// The difference to `before`, without the query before and `polls` samples of the bench, each
    /// one read and `commands_per_poll` commands.
    pub(crate) fn since(self, before: Self, polls: u64, commands_per_poll: u64) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            commands: (self.commands - before.commands)
                .saturating_sub(1 + polls * commands_per_poll),
            reads: (self.reads - before.reads).saturating_sub(1 + polls),
            memory: self.memory.saturating_sub(before.memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_harness::RedisServer;

    #[tokio::test]
    async fn commands_inside_scripts_count_and_queries_do_not() {
        let server = RedisServer::start();
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let before = RedisLoad::of(&mut connection).await.unwrap();
        let script = "for n = 1, 10 do redis.call('SET', 'k' .. n, n) end";
        for _ in 0..5 {
            let () =
                redis::cmd("EVAL").arg(script).arg(0).query_async(&mut connection).await.unwrap();
        }
        let after = RedisLoad::of(&mut connection).await.unwrap().since(before, 0, 0);
        assert_eq!((after.commands, after.reads), (55, 5));
        let less = RedisLoad::of(&mut connection).await.unwrap().since(before, 2, 11);
        assert_eq!(less.reads, 4); // Five scripts and one query, less two samples.
    }
}
