//! The rows of the table: name, unit and target of each.
//!
//! The targets are written only here, so that the table, the page and the JSON file agree.

use clap::ValueEnum;
use serde::{Serialize, Serializer};

/// Rows that are measured together and can be selected with `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Family {
    /// Ready jobs in eight variants; the ceiling; round trips and commands per job
    Drain,
    /// Jobs that a handler posts to a server
    Work,
    /// Jobs pushed in batches while the daemon runs them
    Sustained,
    /// Pushing alone
    Push,
    /// Jobs that fall due one by one
    Lateness,
    /// Jobs that fall due at one instant
    Burst,
    /// Drain and lateness with pending jobs
    Backlog,
    /// A thousand topics with few jobs each
    Topics,
    /// A hundred topics without jobs
    Idle,
    /// What an open page of the daemon costs with a thousand topics
    Page,
    /// Memory of Redis and of the daemon; start time
    Memory,
    /// Two daemons on one Redis
    Runners,
    /// A Redis that writes to disk
    Durability,
    /// `redis.durability` with a replica
    Copies,
    /// TLS compared with a plain connection
    Tls,
    /// A cluster compared with one server; one topic on 1, 2 and 3 primaries
    Cluster,
    /// Throughput by batch size, for the page
    Batches,
    /// CPU time of a job by component, for the page
    Cost,
}

/// The target of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At least the first value, unless the given row reaches the second value.
    AtLeastUnless(f64, Row, f64),
    /// Shown without a target.
    None,
}

/// Description of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) family: Family,
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
}

/// Declares the rows in the order of the table.
macro_rules! rows {
    ($($row:ident: $family:ident, $name:literal, $unit:literal, $target:expr;)*) => {
        /// One row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Row { $($row,)* }

        impl Row {
            /// All rows, in the order of the table.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$row,)*];

            /// The row's description.
            pub(crate) fn spec(self) -> Spec {
                use Target::*;
                match self {
                    $(Self::$row => Spec {
                        family: Family::$family, name: $name, unit: $unit, target: $target,
                    },)*
                }
            }

            /// The row's name in the JSON file.
            pub(crate) fn key(self) -> &'static str {
                match self { $(Self::$row => stringify!($row),)* }
            }
        }
    };
}

rows! {
    DrainRust: Drain, "drain, Rust, fresh instance each", "jobs/s", AtLeast(250_000.0);
    DrainMiddle: Drain, "  the same from 5 % to 95 % of the jobs", "jobs/s", None;
    Ceiling: Drain, "ceiling: the same commands, no handler", "jobs/s", None;
    CeilingRedis: Drain, "  Redis CPU meanwhile", "%", None;
    CeilingShare: Drain, "drain, share of the ceiling", "%", AtLeast(70.0);
    RedisBenchmark: Drain, "redis-benchmark: SET, 16 in a pipeline", "cmd/s", None;
    DrainAssemblyScript: Drain, "drain, AssemblyScript, fresh instance each", "jobs/s", AtLeast(100_000.0);
    DrainGo: Drain, "drain, Go, from a snapshot", "jobs/s", AtLeast(15_000.0);
    DrainJavaScript: Drain, "drain, TypeScript, from a snapshot", "jobs/s", AtLeast(60_000.0);
    DrainPython: Drain, "drain, Python, from a snapshot", "jobs/s", AtLeast(30_000.0);
    DrainJavaScriptWarm: Drain, "drain, TypeScript, warm", "jobs/s", AtLeast(80_000.0);
    DrainPythonWarm: Drain, "drain, Python, warm", "jobs/s", AtLeast(80_000.0);
    DrainWarm: Drain, "drain, Rust, warm", "jobs/s", AtLeast(300_000.0);
    DrainLong: Drain, "drain, Rust, warm, 600,000 jobs", "jobs/s", AtLeast(300_000.0);
    Trips: Drain, "Redis round trips per job", "", AtMost(0.02);
    Commands: Drain, "Redis commands per job, scripts included", "", AtMost(0.2);
    DaemonCpu: Drain, "CPU time, daemon", "µs/job", None;
    RedisCpu: Drain, "CPU time, Redis", "µs/job", None;
    DrainMemory: Drain, "peak memory of the daemon while draining", "MB", AtMost(150.0);
    WorkRust16: Work, "posts, Rust, 16 at once", "jobs/s", None;
    WorkRust16Late: Work, "  Rust, 16 at once: due to arrival, p99", "ms", None;
    WorkRust64: Work, "posts, Rust, 64 at once", "jobs/s", None;
    WorkRust64Late: Work, "  Rust, 64 at once: due to arrival, p99", "ms", None;
    WorkRust256: Work, "posts, Rust, 256 at once", "jobs/s", None;
    WorkRust256Late: Work, "  Rust, 256 at once: due to arrival, p99", "ms", None;
    WorkJavaScript16: Work, "posts, TypeScript, 16 at once", "jobs/s", None;
    WorkJavaScript16Late: Work, "  TypeScript, 16 at once: due to arrival, p99", "ms", None;
    WorkJavaScript64: Work, "posts, TypeScript, 64 at once", "jobs/s", None;
    WorkJavaScript64Late: Work, "  TypeScript, 64 at once: due to arrival, p99", "ms", None;
    WorkJavaScript256: Work, "posts, TypeScript, 256 at once", "jobs/s", None;
    WorkJavaScript256Late: Work, "  TypeScript, 256 at once: due to arrival, p99", "ms", None;
    WorkPython16: Work, "posts, Python, 16 at once", "jobs/s", None;
    WorkPython16Late: Work, "  Python, 16 at once: due to arrival, p99", "ms", None;
    WorkPython64: Work, "posts, Python, 64 at once", "jobs/s", None;
    WorkPython64Late: Work, "  Python, 64 at once: due to arrival, p99", "ms", None;
    WorkPython256: Work, "posts, Python, 256 at once", "jobs/s", None;
    WorkPython256Late: Work, "  Python, 256 at once: due to arrival, p99", "ms", None;
    Sustained: Sustained, "sustained: pushed in batches while it drains", "jobs/s", AtLeast(60_000.0);
    PushHttpOne: Push, "push: HTTP, one connection, one at a time", "jobs/s", AtLeast(8_000.0);
    PushHttpBatch: Push, "push: HTTP, batches of 1,000", "jobs/s", AtLeast(100_000.0);
    PushHttpMany: Push, "push: HTTP, 32 connections, one at a time", "jobs/s", AtLeast(50_000.0);
    PushLibrary: Push, "push: library, pipelined", "jobs/s", AtLeast(350_000.0);
    PushLibraryOne: Push, "push: library, one at a time", "jobs/s", AtLeast(20_000.0);
    PushLibraryMany: Push, "push: library, 32 at once", "jobs/s", AtLeast(100_000.0);
    LateP50: Lateness, "lateness, due to start, p50", "ms", AtMost(0.25);
    LateP99: Lateness, "lateness, due to start, p99", "ms", AtMost(0.7);
    LateMax: Lateness, "lateness, due to start, max", "ms", None;
    LoggedP50: Lateness, "due to verdict in the log, p50", "ms", None;
    LoggedP99: Lateness, "due to verdict in the log, p99", "ms", None;
    BurstLast: Burst, "burst: due to the last verdict", "ms", AtMost(200.0);
    BacklogDrain: Backlog, "backlog: drain, share of that with 1,000", "%", AtLeast(95.0);
    BacklogLate: Backlog, "backlog: p99 lateness, ratio to that with 1,000", "×", AtMost(2.0);
    BacklogDrainRate: Backlog, "  drain with the largest backlog", "jobs/s", None;
    BacklogGrowing: Backlog, "  the same while Redis tables grow", "jobs/s", None;
    BacklogLateP99: Backlog, "  p99 lateness with the largest backlog", "ms", None;
    TopicsLate: Topics, "1,000 topics: p99 lateness", "ms", AtMost(10.0);
    TopicsCpu: Topics, "1,000 topics: Redis CPU, ratio to one topic", "×", AtMost(2.0);
    TopicsCpuShare: Topics, "  Redis CPU with 1,000 topics", "% core", None;
    TopicsManyLate: Topics, "10,000 topics: p99 lateness", "ms", AtMost(5.0);
    IdleTrips: Idle, "idle, 100 topics: Redis round trips", "/s", AtMost(2.0);
    IdleDaemon: Idle, "idle, 100 topics: CPU, daemon", "% core", AtMost(0.5);
    IdleRedis: Idle, "idle, 100 topics: CPU, Redis", "% core", AtMost(0.5);
    IdleReads: Idle, "  Redis reads from sockets", "/s", None;
    IdleCommands: Idle, "  Redis commands, scripts included", "/s", None;
    IdleOneCommands: Idle, "idle, one topic: Redis commands, with scripts", "/s", AtMost(1.0);
    PageDaemon: Page, "open page, all topics: CPU more, daemon", "% core", AtMost(1.0);
    PageRedis: Page, "open page, all topics: CPU more, Redis", "% core", AtMost(1.0);
    TopicPageDaemon: Page, "open page, one topic: CPU more, daemon", "% core", AtMost(1.0);
    TopicPageRedis: Page, "open page, one topic: CPU more, Redis", "% core", AtMost(1.0);
    RedisBytes: Memory, "Redis memory per pending job", "B", AtMost(400.0);
    RestMemory: Memory, "memory of the daemon at rest, 20 modules", "MB", AtMost(25.0);
    Start: Memory, "start to first job, cached module", "ms", AtMost(150.0);
    StartMany: Memory, "  the same with 20 modules", "ms", None;
    RunnersRatio: Runners, "two daemons, ratio to one", "×", AtLeastUnless(1.3, Row::RunnersRedis, 95.0);
    RunnersRate: Runners, "  drain by two daemons", "jobs/s", None;
    RunnersRedis: Runners, "  Redis CPU with two daemons", "%", None;
    EverysecDrain: Durability, "appendonly, everysec: drain", "jobs/s", None;
    EverysecSustained: Durability, "appendonly, everysec: pushed while it drains", "jobs/s", None;
    EverysecPush: Durability, "appendonly, everysec: push, library", "jobs/s", None;
    EverysecLate: Durability, "appendonly, everysec: p99 lateness", "ms", None;
    AlwaysDrain: Durability, "appendonly, always: drain", "jobs/s", None;
    AlwaysSustained: Durability, "appendonly, always: pushed while it drains", "jobs/s", None;
    AlwaysPush: Durability, "appendonly, always: push, library", "jobs/s", None;
    AlwaysLate: Durability, "appendonly, always: p99 lateness", "ms", None;
    AsyncDrain: Copies, "durability async: drain", "jobs/s", None;
    AsyncPush: Copies, "durability async: push, library", "jobs/s", None;
    AsyncPushOne: Copies, "durability async: push, one at a time", "jobs/s", None;
    AsyncLate: Copies, "durability async: p99 lateness", "ms", None;
    ReplicaDrain: Copies, "durability replica: drain", "jobs/s", None;
    ReplicaPush: Copies, "durability replica: push, library", "jobs/s", None;
    ReplicaPushOne: Copies, "durability replica: push, one at a time", "jobs/s", None;
    ReplicaLate: Copies, "durability replica: p99 lateness", "ms", None;
    DiskDrain: Copies, "durability disk: drain", "jobs/s", None;
    DiskPush: Copies, "durability disk: push, library", "jobs/s", None;
    DiskPushOne: Copies, "durability disk: push, one at a time", "jobs/s", None;
    DiskLate: Copies, "durability disk: p99 lateness", "ms", None;
    TlsDrain: Tls, "TLS: drain", "jobs/s", None;
    TlsShare: Tls, "  share of the drain without TLS", "%", None;
    TlsLate: Tls, "TLS: p99 lateness", "ms", None;
    ClusterDrain: Cluster, "cluster of one: drain, share of one server", "%", None;
    ClusterLate: Cluster, "cluster of one: p99 lateness", "ms", None;
    ShardsOneDrain: Cluster, "16 shards, 1 primary: drain", "jobs/s", None;
    ShardsOneDaemon: Cluster, "16 shards, 1 primary: CPU time, daemon", "µs/job", None;
    ShardsOneAll: Cluster, "16 shards, 1 primary: CPU time, primaries", "µs/job", None;
    ShardsOneBusiest: Cluster, "16 shards, 1 primary: CPU time, busiest", "µs/job", None;
    ShardsTwoDrain: Cluster, "16 shards, 2 primaries: drain", "jobs/s", None;
    ShardsTwoDaemon: Cluster, "16 shards, 2 primaries: CPU time, daemon", "µs/job", None;
    ShardsTwoAll: Cluster, "16 shards, 2 primaries: CPU time, primaries", "µs/job", None;
    ShardsTwoBusiest: Cluster, "16 shards, 2 primaries: CPU time, busiest", "µs/job", None;
    ShardsThreeDrain: Cluster, "16 shards, 3 primaries: drain", "jobs/s", None;
    ShardsThreeDaemon: Cluster, "16 shards, 3 primaries: CPU time, daemon", "µs/job", None;
    ShardsThreeAll: Cluster, "16 shards, 3 primaries: CPU time, primaries", "µs/job", None;
    ShardsThreeBusiest: Cluster, "16 shards, 3 primaries: CPU time, busiest", "µs/job", None;
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_are_grouped_by_family_and_have_distinct_names() {
        let mut families: Vec<Family> = Row::ALL.iter().map(|row| row.spec().family).collect();
        families.dedup();
        assert!(families.is_sorted(), "{families:?}");
        let names: BTreeSet<_> = Row::ALL.iter().map(|row| row.spec().name).collect();
        assert_eq!(names.len(), Row::ALL.len());
    }
}
