//! Is this Redis fit to hold jobs? Asked once at the daemon's start, of a server that is not ours.
//!
//! What can lose jobs behind the daemon's back is refused; what makes a crash of Redis itself cost
//! jobs is a warning, because a test machine may want just that.

use redis::aio::ConnectionLike;
use redis::{InfoDict, RedisError};

/// The oldest version whose scripts do what the queue needs.
const VERSION_MIN: (u32, u32) = (7, 0);

/// Why a Redis must not hold jobs.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It does not answer, or does not let this user ask.
    #[error(
        "cannot ask Redis about itself: {0}; check redis.url and that its user may run INFO (ACL: +info)"
    )]
    Info(#[from] RedisError),
    /// It is too old, or its version cannot be read.
    #[error("Redis is version {found:?}; Duebox needs 7.0 or newer (or Valkey): upgrade it")]
    Version {
        /// What it calls itself.
        found: String,
    },
    /// It may throw keys away.
    #[error(
        "Redis has maxmemory-policy {policy}: when memory is short it can evict a whole topic; run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf"
    )]
    Evicts {
        /// The policy in force.
        policy: String,
    },
    /// It is a replica, where nothing can be written.
    #[error("Redis at redis.url is a replica of {master}; point redis.url at the master")]
    Replica {
        /// Its master's address.
        master: String,
    },
    /// It is a sentinel or a node of a cluster.
    #[error(
        "Redis at redis.url runs as {mode}, which Duebox does not speak yet; point redis.url at a standalone Redis"
    )]
    Mode {
        /// The mode it reports.
        mode: String,
    },
}

/// What an operator should know about a Redis that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Nothing is written to disk.
    #[error(
        "Redis persists nothing: if it ends, all jobs are gone; run CONFIG SET appendonly yes, and set it in redis.conf"
    )]
    NotPersistent,
    /// Whether something is written to disk cannot be read.
    #[error(
        "Redis has no append-only file and does not show its save settings (CONFIG is refused); check that it persists"
    )]
    PersistenceUnknown,
    /// The last write to disk failed.
    #[error(
        "Redis could not write to its disk ({what}); it may refuse jobs or lose them: look at its log and its free disk space"
    )]
    PersistenceFails {
        /// The field of INFO that says so.
        what: &'static str,
    },
    /// The eviction policy cannot be read.
    #[error("Redis does not show its maxmemory-policy; check that it is noeviction")]
    PolicyUnknown,
}

/// Looks at a Redis: two or three short commands.
///
/// # Errors
/// [`Unfit`] if it must not hold jobs, or cannot be asked.
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

/// True for a version such as `7.0.15` that has what the queue needs.
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

/// One setting, or none where the server does not show it (hosted ones refuse CONFIG).
async fn setting(connection: &mut impl ConnectionLike, name: &str) -> Option<String> {
    let shown: Result<Vec<String>, _> =
        redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    shown.ok()?.into_iter().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_seven_on_are_fit() {
        for fit in ["7.0.0", "7.0.15", "7.2.4", "8.0.1", "10.0"] {
            assert!(check_version(fit).is_ok(), "{fit}");
        }
        for unfit in ["6.2.14", "6.9", "5.0.7", "", "seven", "7"] {
            let said = check_version(unfit).unwrap_err().to_string();
            assert!(said.contains(unfit) && said.contains("upgrade"), "{said}");
        }
    }

    #[test]
    fn only_a_standalone_master_is_fit() {
        assert!(check_role("standalone", "master", "", "").is_ok());
        let replica = check_role("standalone", "slave", "10.0.0.1", "6379").unwrap_err();
        assert!(replica.to_string().contains("10.0.0.1:6379"), "{replica}");
        assert!(check_role("cluster", "master", "", "").is_err());
        assert!(check_role("sentinel", "", "", "").is_err());
    }
}
