//! The rows of the campaign. Each makes one kind of fault and lets the scene judge.

mod clocks;
mod connections;
mod disks;
mod redis_deaths;
mod refusals;
mod reply_cuts;
mod runners;
mod versions;

use crate::scene::Context;
use crate::table::Outcome;

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The short form has it.
    pub(crate) is_short: bool,
    pub(crate) run: fn(&Context) -> anyhow::Result<Outcome>,
}

/// All rows, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    row("runner-kill", "kill -9 of one of three runners", true, runners::killed),
    row("runner-freeze", "SIGSTOP past the lease, then SIGCONT", true, runners::frozen),
    row(
        "runner-memory",
        "the kernel kills a runner in a memory cgroup",
        false,
        runners::out_of_memory,
    ),
    row("cache-disk-full", "no space for the cache of compiled modules", false, disks::full_cache),
    row(
        "redis-disk-full",
        "no space for the managed Redis, then space again",
        false,
        disks::full_managed_redis,
    ),
    row(
        "redis-kill-always",
        "kill -9 of Redis, `appendfsync always`",
        true,
        redis_deaths::killed_always,
    ),
    row(
        "redis-kill-everysec",
        "kill -9 of Redis, `appendfsync everysec`",
        false,
        redis_deaths::killed_everysec,
    ),
    row(
        "aof-truncated",
        "kill -9 and an append-only file without its end",
        false,
        redis_deaths::truncated_file,
    ),
    row("rdb-older", "Redis restored from an older snapshot", false, redis_deaths::older_snapshot),
    row(
        "reply-cuts",
        "the connection closes after each byte of each reply",
        true,
        reply_cuts::walked,
    ),
    row("connection-delays", "replies up to 40 ms late", false, connections::delayed),
    row("connection-stalls", "connections stall for up to 500 ms", false, connections::stalled),
    row(
        "connection-half-open",
        "connections go silent and stay open",
        false,
        connections::half_open,
    ),
    row("client-kill", "CLIENT KILL of all each 50 ms", true, connections::killed),
    row("client-pause", "CLIENT PAUSE for up to 500 ms", false, connections::paused),
    row("maxmemory", "Redis is out of memory for a second", false, refusals::out_of_memory),
    row("read-only", "Redis is a replica for a second", false, refusals::read_only),
    row("script-flush", "SCRIPT FLUSH each 50 ms", true, refusals::scripts_flushed),
    row("flushall", "FLUSHALL under load", false, refusals::flushed),
    row(
        "clock-runners",
        "runners an hour ahead, an hour behind, and jumping",
        true,
        clocks::runners,
    ),
    row("clock-redis", "the clock of Redis jumps an hour both ways", false, clocks::redis),
    row("versions", "an older daemon next to this one", false, versions::two),
    row("newer-layout", "a Redis with a newer layout of the queue", false, versions::newer_layout),
];

const fn row(
    name: &'static str,
    what: &'static str,
    is_short: bool,
    run: fn(&Context) -> anyhow::Result<Outcome>,
) -> Row {
    Row { name, what, is_short, run }
}
