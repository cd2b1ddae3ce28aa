//! Checks that an external Redis is configured to hold jobs: at the start of the daemon, and for `duebox doctor`.
//!
//! A setting with which Redis can lose jobs while it runs is refused. A setting with which a crash of Redis
//! loses jobs is a warning, because it is useful on test machines.

use redis::aio::ConnectionLike;
use redis::{InfoDict, RedisError};
use serde::Serialize;

/// The oldest supported version.
const VERSION_MIN: (u32, u32) = (7, 0);

/// Why a Redis cannot hold jobs.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// INFO fails, or this user may not run it.
    #[error(
        "cannot run INFO on Redis: {0}; check redis.url, and that its user may run INFO (ACL: +info)"
    )]
    Info(#[from] RedisError),
    /// Its version is too old or unknown.
    #[error("Redis is version {found:?}; Duebox needs 7.0 or newer, or Valkey: upgrade it")]
    Version {
        /// The reported version.
        found: String,
    },
    /// It may evict keys.
    #[error(
        "Redis has maxmemory-policy {policy}, which can evict a whole topic when memory is short; run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf"
    )]
    Evicts {
        /// The current policy.
        policy: String,
    },
    /// It is a replica and cannot be written.
    #[error("Redis at redis.url is a replica of {master}; point redis.url at the master")]
    Replica {
        /// The address of its master.
        master: String,
    },
    /// It is a cluster node, or a sentinel.
    #[error(
        "Redis at redis.url runs as {mode}; write redis-{mode}:// (https://github.com/duebox/duebox/blob/main/docs/guide/redis.md), or point redis.url at a standalone \
         Redis"
    )]
    Mode {
        /// The reported mode.
        mode: String,
    },
}

/// A risk of a Redis that can hold jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// It writes nothing to disk.
    #[error(
        "Redis does not persist data: all jobs are lost when it stops; run CONFIG SET appendonly yes, and set it in redis.conf"
    )]
    NotPersistent,
    /// Its persistence settings cannot be read.
    #[error("Redis has no append-only file, and CONFIG is refused; check that it persists data")]
    PersistenceUnknown,
    /// The last write to disk failed.
    #[error(
        "Redis could not write to its disk ({what}) and may refuse or lose jobs; check its log and its free disk space"
    )]
    PersistenceFails {
        /// The field of INFO that reports the error.
        what: &'static str,
    },
    /// Its eviction policy cannot be read.
    #[error("cannot read maxmemory-policy of Redis; check that it is noeviction")]
    PolicyUnknown,
}

/// What is unfit, what is a risk, and what Redis says of itself.
#[derive(Debug)]
pub struct Fitness {
    /// Why it cannot hold jobs; nothing if it can.
    pub unfit: Vec<Unfit>,
    /// The risks.
    pub warnings: Vec<Warning>,
    /// What it says of itself.
    pub facts: Facts,
}

/// What Redis says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// `redis` or `valkey`.
    pub server: String,
    /// Its version.
    pub version: String,
    /// `standalone`, `sentinel` or `cluster`.
    pub mode: String,
    /// `master` or `slave`.
    pub role: String,
    /// The replicas that are connected to it.
    pub replicas: u64,
    /// What it writes to disk: `aof`, `rdb`, `none`, or `unknown` if CONFIG is refused.
    pub persistence: String,
    /// `maxmemory-policy`; `None` if it is hidden.
    pub eviction: Option<String>,
    /// The memory that its data uses, in bytes.
    pub memory_used: u64,
    /// `maxmemory` in bytes; `None` without a limit.
    pub memory_max: Option<u64>,
}

/// Checks a Redis with two or three short commands; a server of a cluster if the address is one of a cluster.
///
/// # Errors
/// [`Unfit`] if it cannot hold jobs or cannot be queried.
pub async fn check(
    connection: &mut impl ConnectionLike,
    of_cluster: bool,
) -> Result<Vec<Warning>, Unfit> {
    let Fitness { unfit, warnings, .. } = examine(connection, of_cluster).await?;
    unfit.into_iter().next().map_or(Ok(warnings), Err)
}

/// Finds everything that is unfit.
///
/// # Errors
/// [`Unfit::Info`] if it cannot be queried.
pub async fn examine(
    connection: &mut impl ConnectionLike,
    of_cluster: bool,
) -> Result<Fitness, Unfit> {
    let info: InfoDict = redis::cmd("INFO").query_async(connection).await?;
    let text = |key: &str| info.get::<String>(key).unwrap_or_default();
    let number = |key: &str| info.get::<u64>(key).unwrap_or_default();
    let (mut unfit, mut warnings) = (Vec::new(), Vec::new());
    unfit.extend(check_version(&text("redis_version")).err());
    let role = text("role");
    // Valkey has another name for it.
    let mode = [text("redis_mode"), text("server_mode")].concat();
    let is_expected = of_cluster && mode == "cluster";
    let checked_mode = if is_expected { "standalone" } else { mode.as_str() };
    unfit.extend(check_role(checked_mode, &role, &text("master_host"), &text("master_port")).err());
    let eviction = match text("maxmemory_policy") {
        shown if shown.is_empty() => setting(connection, "maxmemory-policy").await,
        shown => Some(shown),
    };
    match &eviction {
        Some(policy) if policy == "noeviction" => {}
        Some(policy) => unfit.push(Unfit::Evicts { policy: policy.clone() }),
        None => warnings.push(Warning::PolicyUnknown),
    }
    let persistence = match text("aof_enabled").as_str() {
        "1" => "aof",
        _ => match setting(connection, "save").await {
            Some(save) if save.is_empty() => "none",
            Some(_) => "rdb",
            None => "unknown",
        },
    };
    match persistence {
        "none" => warnings.push(Warning::NotPersistent),
        "unknown" => warnings.push(Warning::PersistenceUnknown),
        _ => {}
    }
    for what in ["rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"] {
        if text(what) == "err" {
            warnings.push(Warning::PersistenceFails { what });
        }
    }
    let (server, version) = match text("valkey_version") {
        version if version.is_empty() => ("redis", text("redis_version")),
        version => ("valkey", version),
    };
    let facts = Facts {
        server: server.to_owned(),
        version,
        mode,
        role,
        replicas: number("connected_slaves"),
        persistence: persistence.to_owned(),
        eviction,
        memory_used: number("used_memory"),
        memory_max: Some(number("maxmemory")).filter(|max| *max > 0),
    };
    Ok(Fitness { unfit, warnings, facts })
}

fn check_version(found: &str) -> Result<(), Unfit> {
    if is_new_enough(found) { Ok(()) } else { Err(Unfit::Version { found: found.to_owned() }) }
}

/// Whether a version such as `7.0.15` is supported.
pub(crate) fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= VERSION_MIN,
        _ => false,
    }
}

fn check_role(mode: &str, role: &str, host: &str, port: &str) -> Result<(), Unfit> {
    if matches!(mode, "sentinel" | "cluster") {
        return Err(Unfit::Mode { mode: mode.to_owned() });
    }
    if role == "slave" {
        return Err(Unfit::Replica { master: format!("{host}:{port}") });
    }
    Ok(())
}

/// One setting, or `None` if the server refuses CONFIG, as hosted ones do.
async fn setting(connection: &mut impl ConnectionLike, name: &str) -> Option<String> {
    let shown: Result<Vec<String>, _> =
        redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    shown.ok()?.into_iter().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_seven_are_supported() {
        for fit in ["7.0.0", "7.0.15", "7.2.4", "8.0.1", "10.0"] {
            assert!(check_version(fit).is_ok(), "{fit}");
        }
        for unfit in ["6.2.14", "6.9", "5.0.7", "", "seven", "7"] {
            let error = check_version(unfit).unwrap_err().to_string();
            assert!(error.contains(unfit) && error.contains("upgrade"), "{error}");
        }
    }

    #[test]
    fn only_a_standalone_master_is_accepted() {
        assert!(check_role("standalone", "master", "", "").is_ok());
        let replica = check_role("standalone", "slave", "10.0.0.1", "6379").unwrap_err();
        assert!(replica.to_string().contains("10.0.0.1:6379"), "{replica}");
        assert!(check_role("cluster", "master", "", "").is_err());
        assert!(check_role("sentinel", "", "", "").is_err());
    }
}
