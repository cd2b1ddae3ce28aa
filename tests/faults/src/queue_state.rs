//! The state of Redis at the end of a row.

use std::collections::HashMap;

use anyhow::Context as _;
use redis::{Connection, cmd};
use serde_json::Value;

use crate::ledger::Name;
use crate::plan::{TICKS, TOPICS};

/// Jobs that are dead or still live.
#[derive(Debug, Default)]
pub(crate) struct QueueState {
    /// The class of each dead job.
    pub(crate) dead: HashMap<Name, String>,
    pub(crate) live: Vec<Name>,
}

impl QueueState {
    /// The number of live jobs and follow-ups that are still to be pushed; schedules push on.
    pub(crate) fn live(url: &str) -> anyhow::Result<usize> {
        let mut connection = connect(url)?;
        let mut live = 0;
        for topic in TOPICS.iter().filter(|topic| **topic != TICKS) {
            let mut length = |verb: &str, part| -> anyhow::Result<usize> {
                Ok(cmd(verb).arg(key(topic, part)).query(&mut connection)?)
            };
            live += length("HLEN", "jobs")? + length("ZCARD", "unack")? + length("HLEN", "outbox")?;
        }
        Ok(live)
    }

    pub(crate) fn read(url: &str) -> anyhow::Result<Self> {
        let mut connection = connect(url)?;
        let mut state = Self::default();
        for topic in TOPICS {
            let infos: Vec<(String, String)> =
                cmd("HGETALL").arg(key(topic, "dead:info")).query(&mut connection)?;
            for (id, info) in infos {
                let info: Value = serde_json::from_str(&info).unwrap_or_default();
                let class = info["class"].as_str().unwrap_or("unknown").to_owned();
                state.dead.insert(Name::new(topic, &id), class);
            }
            let ids: Vec<String> = cmd("HKEYS").arg(key(topic, "jobs")).query(&mut connection)?;
            state.live.extend(ids.iter().map(|id| Name::new(topic, id)));
        }
        Ok(state)
    }
}

fn connect(url: &str) -> anyhow::Result<Connection> {
    redis::Client::open(url)?.get_connection().with_context(|| format!("no connection to {url}"))
}

fn key(topic: &str, part: &str) -> String {
    format!("duebox:{{{topic}}}:{part}")
}
