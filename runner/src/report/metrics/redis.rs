//! Metrics of Redis itself: its memory, evictions and persistence.

use std::fmt;
use std::str::FromStr;

use duebox_queue::Queue;

use super::page::{About, Page};

/// Values from `INFO`; in a cluster those of all primaries together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RedisInfo {
    used: Option<u64>,
    max: Option<u64>,
    evicted: Option<u64>,
    persists: Option<bool>,
}

impl RedisInfo {
    /// Reads `INFO`; missing values stay `None`.
    pub(super) async fn read(queue: &Queue) -> Self {
        let asked = queue.redis_of_each().into_iter().map(|(_, mut server)| async move {
            let mut info = redis::cmd("INFO");
            info.arg("memory").arg("stats").arg("persistence");
            let text: Result<String, _> = info.query_async(&mut server).await;
            text.map(|text| Self::parse(&text)).ok()
        });
        let told = futures_util::future::join_all(asked).await;
        told.into_iter().reduce(|all, one| Some(all?.and(one?))).flatten().unwrap_or_default()
    }

    /// The values of two servers together. There is a limit if both have one.
    fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            used: sum(self.used, other.used),
            max: sum(self.max, other.max),
            evicted: sum(self.evicted, other.evicted),
            persists: self.persists.zip(other.persists).map(|(one, other)| one && other),
        }
    }

    fn parse(text: &str) -> Self {
        let persists =
            ["rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"]
                .map(|name| field::<String>(text, name));
        let known: Vec<bool> =
            persists.into_iter().flatten().map(|status| status == "ok").collect();
        Self {
            used: field(text, "used_memory"),
            // Redis reports 0 for no limit.
            max: field(text, "maxmemory").filter(|max| *max > 0),
            evicted: field(text, "evicted_keys"),
            persists: (!known.is_empty()).then(|| known.iter().all(|ok| *ok)),
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(used) = self.used {
            page.gauge(
                &About::bytes("redis_memory_used", "Memory that Redis uses for its data."),
                used,
            )?;
        }
        if let Some(max) = self.max {
            page.gauge(
                &About::bytes(
                    "redis_memory_limit",
                    "Memory limit of Redis (maxmemory); absent without a limit.",
                ),
                max,
            )?;
        }
        if let Some(persists) = self.persists {
            let about = About::new(
                "redis_persistence_ok",
                "1 if the last writes of Redis to disk succeeded.",
            );
            page.gauge(&about, u64::from(persists))?;
        }
        if let Some(evicted) = self.evicted {
            page.counter(
                &About::new(
                    "redis_evicted_keys",
                    "Keys that Redis threw away for want of memory: each may be jobs lost.",
                ),
                evicted,
            )?;
        }
        Ok(())
    }
}

fn field<T: FromStr>(text: &str, name: &str) -> Option<T> {
    let value = |line: &'_ str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_read_and_no_bound_is_none() {
        let text = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1M\r\nmaxmemory:0\r\n\
                    evicted_keys:3\r\nrdb_last_bgsave_status:ok\r\naof_last_write_status:err\r\n";
        let figures = RedisInfo::parse(text);
        assert_eq!((figures.used, figures.max, figures.evicted), (Some(1 << 20), None, Some(3)));
        assert_eq!(figures.persists, Some(false));
        assert_eq!(RedisInfo::parse("maxmemory:5\r\n").max, Some(5));
        assert_eq!(RedisInfo::parse(""), RedisInfo::default());
        let other = RedisInfo::parse("used_memory:24\r\nmaxmemory:7\r\nevicted_keys:0\r\n");
        let both = figures.and(other);
        assert_eq!((both.used, both.max, both.evicted), (Some((1 << 20) + 24), None, Some(3)));
    }
}
