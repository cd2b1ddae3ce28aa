//! `GET /v1/runners`: the daemons on this Redis, as they report themselves. `GET /v1/redis`: Redis, as it describes
//! itself.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use duebox_queue::{Queue, QueueError, SlowCall};
use serde::Serialize;
use utoipa::ToSchema;

use super::topics::statuses;
use crate::http::problem::Problem;
use crate::http::state::ServerState;
use crate::observe::pull_counters::{PulledStatus, PullingConsumer};
use crate::report::process::ProcessStatus;
use crate::report::status::{Status, TopicStatus};

/// The most commands of Redis in a response.
const COMMANDS_MAX: usize = 12;
/// The most slow calls.
const SLOW_MAX: usize = 20;

/// The running daemons.
#[derive(Serialize, ToSchema)]
pub(super) struct RunnerList {
    /// The daemons, the longest running first.
    runners: Vec<RunnerState>,
}

/// A daemon.
#[derive(Serialize, ToSchema)]
struct RunnerState {
    /// Its id.
    runner: String,
    /// True if it sent this response.
    this: bool,
    /// Its version.
    version: String,
    /// Its process id.
    pid: u32,
    /// The address of its API; null without one.
    api: Option<String>,
    /// When it became ready, unix ms by its own clock.
    started_at_ms: u64,
    /// When it reported last, by the same clock.
    reported_at_ms: u64,
    /// Its process.
    process: ProcessStatus,
    /// The topics that its handlers serve.
    topics: Vec<RunnerTopic>,
    /// The number of further topics.
    more_topics: usize,
    /// The topics whose jobs were pulled over its API, and by whom.
    pulled: Vec<RunnerPulled>,
    /// The first problem of its manifest file, if that is refused and an older one is in use.
    manifest_problem: Option<String>,
}

/// A topic of a daemon.
#[derive(Serialize, ToSchema)]
struct RunnerTopic {
    /// Its name.
    topic: String,
    /// The module that serves it, 64 hex digits; null without a valid one.
    digest: Option<String>,
    /// Attempts since the daemon started.
    attempts: u64,
    /// Failed attempts.
    failed: u64,
}

/// A topic whose jobs were pulled over a daemon's API.
#[derive(Serialize, ToSchema)]
struct RunnerPulled {
    /// Its name.
    topic: String,
    /// Attempts that consumers settled since the daemon started.
    attempts: u64,
    /// Failed attempts.
    failed: u32,
    /// The consumers, the most recent first; at most 16.
    consumers: Vec<PullingConsumer>,
}

/// Redis, as it describes itself. Values that it does not tell are null.
#[derive(Serialize, ToSchema)]
pub(super) struct RedisState {
    /// `redis` or `valkey`, and the version.
    version: String,
    /// How long it has been running, in seconds.
    uptime_s: Option<u64>,
    /// Bytes of its data.
    memory_bytes: Option<u64>,
    /// The most bytes that its data may have; null without a limit.
    memory_max_bytes: Option<u64>,
    /// Bytes of its process.
    memory_rss_bytes: Option<u64>,
    /// What happens when the memory is full.
    eviction: Option<String>,
    /// True if it writes an append-only file.
    aof: Option<bool>,
    /// False if its last write to disk failed.
    disk_ok: bool,
    /// Writes since the last snapshot.
    changes_since_save: Option<u64>,
    /// When the last snapshot was made, unix seconds.
    saved_at_s: Option<u64>,
    /// Connected clients.
    clients: Option<u64>,
    /// Clients that wait in a blocking command.
    blocked_clients: Option<u64>,
    /// Commands per second.
    commands_per_s: Option<u64>,
    /// Connected replicas.
    replicas: Option<u64>,
    /// The commands that took the most time since it started.
    commands: Vec<RedisCommand>,
    /// The latest slow calls, the latest first; at most 20. Null if Redis does not tell them.
    slow: Option<Vec<RedisSlowCall>>,
    /// Why it does not tell them.
    slow_refused: Option<String>,
}

/// A call that took longer than Redis' `slowlog-log-slower-than`, without its arguments.
#[derive(Serialize, ToSchema)]
struct RedisSlowCall {
    /// When it was made, unix seconds.
    at_s: u64,
    /// How long Redis worked on it, in ms.
    took_ms: f64,
    /// The command; of a script of Duebox also its name.
    command: String,
    /// Its first key, if that is one of the queue.
    key: Option<String>,
    /// The name of the client, or its address.
    client: String,
}

/// The calls of a command.
#[derive(Serialize, ToSchema)]
struct RedisCommand {
    /// Its name.
    name: String,
    /// The number of calls.
    calls: u64,
    /// Their time in ms.
    total_ms: f64,
    /// The mean time of a call, in µs.
    mean_us: f64,
    /// 99 of 100 calls took at most so many µs; null if it is unknown.
    p99_us: Option<f64>,
}

/// List the running daemons
#[utoipa::path(get, path = "/v1/runners", tag = "runners", responses((status = 200, body = RunnerList)))]
pub(super) async fn list(State(server): State<ServerState>) -> Result<Json<RunnerList>, Problem> {
    let mut runners = statuses(&server).await?;
    runners.sort_by_key(|status| status.started_at_ms);
    let runners = runners.into_iter().map(|status| RunnerState::of(status, &server.runner_id));
    Ok(Json(RunnerList { runners: runners.collect() }))
}

/// Get the state of Redis
///
/// Of a cluster or behind sentinels, of one server. The slow calls of a cluster are those of all primaries that reply.
#[utoipa::path(get, path = "/v1/redis", tag = "runners", responses((status = 200, body = RedisState)))]
pub(super) async fn redis(State(server): State<ServerState>) -> Result<Json<RedisState>, Problem> {
    let (info, slow) = tokio::try_join!(server.queue.server_info(), slow_calls(&server.queue))?;
    let (slow, slow_refused) = slow;
    Ok(Json(RedisState { slow, slow_refused, ..RedisState::of(&info) }))
}

/// The slow calls, or why Redis does not tell them.
async fn slow_calls(
    queue: &Queue,
) -> Result<(Option<Vec<RedisSlowCall>>, Option<String>), QueueError> {
    let shown = |call: SlowCall| RedisSlowCall {
        at_s: call.at_s,
        took_ms: call.took_us as f64 / 1_000.0,
        command: call.command,
        key: call.key,
        client: call.client,
    };
    match queue.slow_calls(SLOW_MAX).await {
        Ok(calls) => Ok((Some(calls.into_iter().map(shown).collect()), None)),
        // A user without the permission, or a server without the command: the rest is told all the same.
        Err(error) if error.is_refusal() => Ok((None, Some(error.to_string()))),
        Err(error) => Err(error),
    }
}

impl RunnerState {
    fn of(status: Status, own: &str) -> Self {
        let topic = |topic: TopicStatus| RunnerTopic {
            topic: topic.topic,
            digest: topic.digest,
            attempts: topic.total.jobs,
            failed: topic.total.failed,
        };
        let pulled = |pulled: PulledStatus| RunnerPulled {
            attempts: pulled.attempts(),
            failed: pulled.tally.failed(),
            topic: pulled.topic,
            consumers: pulled.consumers,
        };
        Self {
            this: status.runner == own,
            runner: status.runner,
            version: status.version,
            pid: status.pid,
            api: status.api.map(|at| at.to_string()),
            started_at_ms: status.started_at_ms,
            reported_at_ms: status.told_at_ms,
            process: status.process,
            topics: status.topics.into_iter().map(topic).collect(),
            more_topics: status.more_topics,
            pulled: status.pulled.into_iter().map(pulled).collect(),
            manifest_problem: status.manifest_refused.map(|refused| refused.problem),
        }
    }
}

impl RedisState {
    /// Reads the reply of INFO: lines `name:value`.
    fn of(info: &str) -> Self {
        let fields: BTreeMap<&str, &str> =
            info.lines().filter_map(|line| line.trim().split_once(':')).collect();
        let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
        let text = |name: &str| fields.get(name).map(|value| (*value).to_owned());
        let (server, version) = match text("valkey_version") {
            Some(version) => ("valkey", Some(version)),
            None => ("redis", text("redis_version")),
        };
        let is_ok = |name: &str| fields.get(name).is_none_or(|value| *value == "ok");
        Self {
            version: format!("{server} {}", version.unwrap_or_default()).trim().to_owned(),
            uptime_s: number("uptime_in_seconds"),
            memory_bytes: number("used_memory"),
            memory_max_bytes: number("maxmemory").filter(|max| *max > 0),
            memory_rss_bytes: number("used_memory_rss"),
            eviction: text("maxmemory_policy"),
            aof: number("aof_enabled").map(|on| on == 1),
            disk_ok: is_ok("rdb_last_bgsave_status")
                && is_ok("aof_last_write_status")
                && is_ok("aof_last_bgrewrite_status"),
            changes_since_save: number("rdb_changes_since_last_save"),
            saved_at_s: number("rdb_last_save_time"),
            clients: number("connected_clients"),
            blocked_clients: number("blocked_clients"),
            commands_per_s: number("instantaneous_ops_per_sec"),
            replicas: number("connected_slaves"),
            commands: commands(&fields),
            slow: None,
            slow_refused: None,
        }
    }
}

/// The commands that took the most time.
fn commands(fields: &BTreeMap<&str, &str>) -> Vec<RedisCommand> {
    let part = |text: &str, name: &str| -> Option<f64> {
        let parts = text.split(',').filter_map(|part| part.split_once('='));
        parts.into_iter().find(|(found, _)| *found == name)?.1.parse().ok()
    };
    let mut commands: Vec<RedisCommand> = fields
        .iter()
        .filter_map(|(field, value)| {
            let name = field.strip_prefix("cmdstat_")?;
            let latency = fields.get(format!("latency_percentiles_usec_{name}").as_str());
            Some(RedisCommand {
                name: name.to_owned(),
                calls: part(value, "calls")? as u64,
                total_ms: (part(value, "usec")? / 1_000.0).round(),
                mean_us: part(value, "usec_per_call")?,
                p99_us: latency.and_then(|text| part(text, "p99")),
            })
        })
        .collect();
    commands.sort_by(|one, other| other.total_ms.total_cmp(&one.total_ms));
    commands.truncate(COMMANDS_MAX);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_of_info_is_read_and_what_it_lacks_is_null() {
        let info = "# Server\r\nredis_version:7.4.1\r\nused_memory:1048576\r\nmaxmemory:0\r\n\
                    aof_enabled:1\r\nrdb_last_bgsave_status:err\r\n\
                    cmdstat_get:calls=2,usec=5,usec_per_call=2.50\r\n\
                    cmdstat_evalsha:calls=3,usec=9000,usec_per_call=3000.00\r\n\
                    latency_percentiles_usec_evalsha:p50=1.0,p99=8000.5,p99.9=9000.0\r\n";
        let state = RedisState::of(info);
        assert_eq!((state.version.as_str(), state.memory_bytes), ("redis 7.4.1", Some(1 << 20)));
        assert_eq!((state.memory_max_bytes, state.aof, state.disk_ok), (None, Some(true), false));
        assert_eq!((state.clients, state.commands.len()), (None, 2));
        let first = &state.commands[0];
        assert_eq!((first.name.as_str(), first.calls, first.p99_us), ("evalsha", 3, Some(8_000.5)));
        assert_eq!((first.total_ms, first.mean_us), (9.0, 3_000.0));
    }
}
