//! The final audit: compares the demo's ledger with the jobs in Redis and with the shop's own
//! ledger.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use anyhow::Context;
use duebox_shop::Entry;
use redis::aio::ConnectionLike;
use serde_json::Value;

use crate::ledger::Ledger;
use crate::plan::{End, Topic};

/// Maximum number of mismatches printed.
const MISMATCHES_SHOWN: usize = 12;

/// Column titles of the table.
const HEAD: &str =
    "topic           handler in      pushed  acked  retried  dead  effects  accounted";

/// Counts of one topic's jobs.
#[derive(Debug, Default, Clone, Copy)]
struct Row {
    pushed: u64,
    acked: u64,
    retried: u64,
    dead: u64,
    effects: u64,
    accounted: u64,
}

/// The result of the audit.
#[derive(Debug)]
pub(crate) struct Audit {
    rows: Vec<(Topic, Row)>,
    /// Repeated requests, which had no effect.
    repeated: u64,
    mismatches: BTreeMap<String, String>,
}

/// Per job, by its idempotency key: how often the shop was asked and how often that had an effect.
#[derive(Debug, Default)]
pub(crate) struct Effects(HashMap<String, EffectCount>);

#[derive(Debug, Default, Clone, Copy)]
struct EffectCount {
    done: u64,
    repeated: u64,
}

/// What a crash adds to a job's count of attempts; a failure adds 1.
const CRASH: u64 = 1_000_000;

/// The state of one topic in Redis.
#[derive(Debug, Default)]
pub(crate) struct RedisState {
    live: HashSet<String>,
    /// Jobs under lease.
    running: HashSet<String>,
    attempts: HashMap<String, u64>,
    dead: HashMap<String, String>,
}

impl Audit {
    /// Reads Redis and compares it with the ledgers.
    pub(crate) async fn make(
        ledger: &Ledger,
        connection: &mut (impl ConnectionLike + Send + Sync),
        effects: &Effects,
    ) -> anyhow::Result<Self> {
        let repeated = effects.0.values().map(|count| count.repeated).sum();
        let mut audit = Self { rows: Vec::new(), repeated, mismatches: BTreeMap::new() };
        for topic in Topic::ALL {
            let state = RedisState::read(topic, connection).await?;
            audit.compare(topic, ledger, &state, effects);
        }
        Ok(audit)
    }

    fn compare(&mut self, topic: Topic, ledger: &Ledger, state: &RedisState, effects: &Effects) {
        let mut row = Row::default();
        for (id, entry) in ledger.entries().filter(|(_, entry)| entry.topic == topic) {
            row.pushed += 1;
            row.retried += u64::from(entry.was_retried());
            let end = match state.dead.get(id) {
                _ if state.live.contains(id) => Err("is still in Redis".to_owned()),
                Some(class) => {
                    row.dead += 1;
                    Ok(End::Dead(if class == "drop" { "drop" } else { "nack" }))
                        .and_then(|end| known(class).map(|()| end))
                }
                None => {
                    row.acked += 1;
                    Ok(End::Acked)
                }
            };
            let mismatch = match end {
                Err(mismatch) => Some(mismatch),
                Ok(end) if end != entry.expected.end => {
                    Some(format!("ended as {end:?}, expected {:?}", entry.expected.end))
                }
                Ok(_) => entry.mismatch(),
            };
            let done = effects.of(topic, id).done;
            row.effects += done;
            let wanted = u64::from(entry.effect);
            let mismatch = mismatch.or_else(|| {
                (done != wanted)
                    .then(|| format!("had {done} effects at the shop, expected {wanted}"))
            });
            match mismatch {
                Some(mismatch) => drop(self.mismatches.insert(id.clone(), mismatch)),
                None => row.accounted += 1,
            }
        }
        self.rows.push((topic, row));
    }

    /// Whether every job ended as planned and its handler logged the expected verdicts.
    pub(crate) fn is_complete(&self) -> bool {
        self.mismatches.is_empty()
    }
}

impl Effects {
    /// Reads the shop's ledger.
    pub(crate) fn read(entries: &[Entry]) -> Self {
        let mut effects = Self::default();
        for entry in entries {
            let count = effects.0.entry(entry.key.clone()).or_default();
            *(if entry.effect { &mut count.done } else { &mut count.repeated }) += 1;
        }
        effects
    }

    /// The host sends the topic and the id of the job as the idempotency key.
    fn of(&self, topic: Topic, id: &str) -> EffectCount {
        self.0.get(&format!("{}/{id}", topic.name())).copied().unwrap_or_default()
    }
}

/// In the demo's plan jobs die only with these classes.
fn known(class: &str) -> Result<(), String> {
    if matches!(class, "drop" | "nack") { Ok(()) } else { Err(format!("died with class {class}")) }
}

impl RedisState {
    pub(crate) async fn read(
        topic: Topic,
        connection: &mut (impl ConnectionLike + Send + Sync),
    ) -> anyhow::Result<Self> {
        let key = |name: &str| format!("duebox:{{{}}}:{name}", topic.name());
        let mut state = Self::default();
        for state_name in ["pending", "ready", "unack", "retry"] {
            let mut range = redis::cmd("ZRANGE");
            let ids: Vec<String> = range
                .arg(key(state_name))
                .arg(0)
                .arg(-1)
                .query_async(connection)
                .await
                .with_context(|| format!("cannot read {}", key(state_name)))?;
            if state_name == "unack" {
                state.running.extend(ids.iter().cloned());
            }
            state.live.extend(ids);
        }
        state.attempts = redis::cmd("HGETALL").arg(key("attempts")).query_async(connection).await?;
        for hash in ["jobs", "opts", "attempts"] {
            let ids: Vec<String> =
                redis::cmd("HKEYS").arg(key(hash)).query_async(connection).await?;
            state.live.extend(ids);
        }
        let infos: HashMap<String, String> =
            redis::cmd("HGETALL").arg(key("dead:info")).query_async(connection).await?;
        for (id, info) in infos {
            let info: Value = serde_json::from_str(&info).unwrap_or(Value::Null);
            state.dead.insert(id, info["class"].as_str().unwrap_or("no class").to_owned());
        }
        Ok(state)
    }

    /// Whether a daemon has the job under lease.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running.contains(id)
    }

    /// Settled attempts of a live job; `None` for a job that has ended.
    pub(crate) fn settled(&self, id: &str) -> Option<u32> {
        let failures = self.attempts.get(id).map_or(0, |count| count % CRASH);
        self.live.contains(id).then(|| u32::try_from(failures).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, language: &str, row: Row| {
            let Row { pushed, acked, retried, dead, effects, accounted } = row;
            write!(f, "{name:<16}{language:<15}")?;
            writeln!(f, "{pushed:>7}{acked:>7}{retried:>9}{dead:>6}{effects:>9}{accounted:>11}")
        };
        writeln!(f, "{HEAD}")?;
        let mut sum = Row::default();
        for (topic, row) in &self.rows {
            line(f, topic.name(), topic.language(), *row)?;
            sum.pushed += row.pushed;
            sum.acked += row.acked;
            sum.retried += row.retried;
            sum.dead += row.dead;
            sum.effects += row.effects;
            sum.accounted += row.accounted;
        }
        line(f, "all", "", sum)?;
        writeln!(
            f,
            "effects: orders closed and messages sent, by the shop's ledger; {} requests were repeats",
            self.repeated
        )?;
        for (id, mismatch) in self.mismatches.iter().take(MISMATCHES_SHOWN) {
            writeln!(f, "not accounted for: {id}: {mismatch}")?;
        }
        if self.mismatches.len() > MISMATCHES_SHOWN {
            writeln!(f, "… and {} more", self.mismatches.len() - MISMATCHES_SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    fn audit(state: &RedisState, verdict: &str) -> Audit {
        audit_with(state, verdict, &[true, false])
    }

    fn audit_with(state: &RedisState, verdict: &str, effects: &[bool]) -> Audit {
        let mut ledger = Ledger::default();
        let job = plan::late_order(1, 1_000);
        ledger.record_push(&job);
        ledger.record_line(&job.id, 1, "d", 1_000_000, verdict);
        let key = format!("order.close/{}", job.id);
        let entry = |effect| Entry { what: "closed", of: job.id.clone(), key: key.clone(), effect };
        let effects: Vec<Entry> = effects.iter().map(|effect| entry(*effect)).collect();
        let mut audit = Audit { rows: Vec::new(), repeated: 0, mismatches: BTreeMap::new() };
        audit.compare(Topic::OrderClose, &ledger, state, &Effects::read(&effects));
        audit
    }

    #[test]
    fn an_effect_must_happen_exactly_once() {
        let none = RedisState::default();
        assert!(!audit_with(&none, "verdict=ack", &[]).is_complete());
        assert!(!audit_with(&none, "verdict=ack", &[true, true]).is_complete());
    }

    #[test]
    fn a_job_is_accounted_for_only_if_redis_and_its_handler_agree() {
        assert!(audit(&RedisState::default(), "verdict=ack").is_complete());
        assert!(!audit(&RedisState::default(), "verdict=nack").is_complete());
        let id = "late-order-0001".to_owned();
        let waiting = RedisState { live: HashSet::from([id.clone()]), ..RedisState::default() };
        assert!(audit(&waiting, "verdict=ack").to_string().contains("still in Redis"));
        let dead = |class: &str| RedisState {
            dead: HashMap::from([(id.clone(), class.to_owned())]),
            ..RedisState::default()
        };
        assert!(!audit(&dead("drop"), "verdict=ack").is_complete());
        assert!(audit(&dead("trap"), "verdict=ack").to_string().contains("died with class trap"));
    }
}
