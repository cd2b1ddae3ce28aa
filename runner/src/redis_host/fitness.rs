//! Checks once, at the start of the daemon, that an external Redis is configured to hold jobs.
//!
//! A setting with which Redis can lose jobs while it runs is refused. A setting with which a crash of Redis
//! loses jobs is a warning, because it is useful on test machines.

use redis::aio::ConnectionLike;
use redis::{InfoDict, RedisError};

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
    /// It is a sentinel or a cluster node.
    #[error(
        "Redis at redis.url runs as {mode}, which Duebox does not support yet; point redis.url at a standalone Redis"
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

/// Checks a Redis with two or three short commands.
///
/// # Errors
/// [`Unfit`] if it cannot hold jobs or cannot be queried.
pub async fn check(connection: &mut impl ConnectionLike) -> Result<Vec<Warning>, Unfit> {
    let info: InfoDict = redis::cmd("INFO").query_async(connection).await?;
    let text = |key: &str| info.get::<String>(key).unwrap_or_default();
    check_version(&text("redis_version"))?;
    check_role(&text("redis_mode"), &text("role"), &text("master_host"), &text("master_port"))?;
    let mut warnings = Vec::new();
    let policy = match text("maxmemory_policy") {
        shown if shown.is_empty() => setting(connection, "maxmemory-policy").await,
        shown => Some(shown),
    };
    match policy {
        Some(policy) if policy == "noeviction" => {}
        Some(policy) => return Err(Unfit::Evicts { policy }),
        None => warnings.push(Warning::PolicyUnknown),
    }
    if text("aof_enabled") != "1" {
        match setting(connection, "save").await {
            Some(save) if save.is_empty() => warnings.push(Warning::NotPersistent),
            Some(_) => {}
            None => warnings.push(Warning::PersistenceUnknown),
        }
    }
    for what in ["rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"] {
        if text(what) == "err" {
            warnings.push(Warning::PersistenceFails { what });
        }
    }
    Ok(warnings)
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
