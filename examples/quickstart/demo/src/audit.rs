//! The account at the end: where Redis says each job is, and what the shop's own ledger says came of it,
//! held against the ledger of the demo.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use anyhow::Context;
use duebox_shop::Entry;
use redis::aio::ConnectionManager;
use serde_json::Value;

use crate::ledger::Ledger;
use crate::plan::{End, Topic};

/// Complaints that are shown.
const COMPLAINTS_SHOWN: usize = 12;

/// What stands over the columns of the table.
const HEAD: &str =
    "topic           handler in      pushed  acked  retried  dead  effects  accounted";

/// What came of the jobs of one topic.
#[derive(Debug, Default, Clone, Copy)]
struct Row {
    pushed: u64,
    acked: u64,
    retried: u64,
    dead: u64,
    effects: u64,
    accounted: u64,
}

/// The account of the whole demo.
#[derive(Debug)]
pub(crate) struct Audit {
    rows: Vec<(Topic, Row)>,
    /// Requests for an effect that were answered a second time, and had none.
    repeated: u64,
    complaints: BTreeMap<String, String>,
}

/// How often the shop was asked for what a job is about, by the job's key, and how often it did it.
#[derive(Debug, Default)]
pub(crate) struct Effects(HashMap<String, Asked>);

#[derive(Debug, Default, Clone, Copy)]
struct Asked {
    done: u64,
    repeated: u64,
}

/// What a runner's death adds to a job's count of attempts; a failure adds 1.
const CRASH: u64 = 1_000_000;

/// What Redis holds of one topic.
#[derive(Debug, Default)]
pub(crate) struct Found {
    live: HashSet<String>,
    /// Those that a runner has under lease.
    running: HashSet<String>,
    attempts: HashMap<String, u64>,
    dead: HashMap<String, String>,
}

impl Audit {
    /// Reads Redis and compares.
    pub(crate) async fn make(
        ledger: &Ledger,
        connection: &mut ConnectionManager,
        effects: &Effects,
    ) -> anyhow::Result<Self> {
        let repeated = effects.0.values().map(|asked| asked.repeated).sum();
        let mut audit = Self { rows: Vec::new(), repeated, complaints: BTreeMap::new() };
        for topic in Topic::ALL {
            let found = Found::read(topic, connection).await?;
            audit.compare(topic, ledger, &found, effects);
        }
        Ok(audit)
    }

    fn compare(&mut self, topic: Topic, ledger: &Ledger, found: &Found, effects: &Effects) {
        let mut row = Row::default();
        for (id, entry) in ledger.entries().filter(|(_, entry)| entry.topic == topic) {
            row.pushed += 1;
            row.retried += u64::from(entry.was_retried());
            let end = match found.dead.get(id) {
                _ if found.live.contains(id) => Err("still waits in Redis".to_owned()),
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
            let complaint = match end {
                Err(complaint) => Some(complaint),
                Ok(end) if end != entry.fate.end => {
                    Some(format!("ended as {end:?}, not as {:?}", entry.fate.end))
                }
                Ok(_) => entry.complaint(),
            };
            let done = effects.of(topic, id).done;
            row.effects += done;
            let wanted = u64::from(entry.effect);
            let complaint = complaint.or_else(|| {
                (done != wanted).then(|| format!("had {done} effects at the shop, not {wanted}"))
            });
            match complaint {
                Some(complaint) => drop(self.complaints.insert(id.clone(), complaint)),
                None => row.accounted += 1,
            }
        }
        self.rows.push((topic, row));
    }

    /// True if every job is where it must be, and its handlers said what they had to.
    pub(crate) fn is_complete(&self) -> bool {
        self.complaints.is_empty()
    }
}

impl Effects {
    /// Reads the shop's ledger.
    pub(crate) fn read(entries: &[Entry]) -> Self {
        let mut effects = Self::default();
        for entry in entries {
            let asked = effects.0.entry(entry.key.clone()).or_default();
            *(if entry.effect { &mut asked.done } else { &mut asked.repeated }) += 1;
        }
        effects
    }

    /// The host sends every request of a job under its topic and its id.
    fn of(&self, topic: Topic, id: &str) -> Asked {
        self.0.get(&format!("{}/{id}", topic.name())).copied().unwrap_or_default()
    }
}

/// The demo's plan ends jobs as these classes only.
fn known(class: &str) -> Result<(), String> {
    if matches!(class, "drop" | "nack") { Ok(()) } else { Err(format!("died of {class}")) }
}

impl Found {
    pub(crate) async fn read(
        topic: Topic,
        connection: &mut ConnectionManager,
    ) -> anyhow::Result<Self> {
        let key = |name: &str| format!("duebox:{{{}}}:{name}", topic.name());
        let mut found = Self::default();
        for stage in ["pending", "ready", "unack", "retry"] {
            let mut range = redis::cmd("ZRANGE");
            let ids: Vec<String> = range
                .arg(key(stage))
                .arg(0)
                .arg(-1)
                .query_async(connection)
                .await
                .with_context(|| format!("cannot read {}", key(stage)))?;
            if stage == "unack" {
                found.running.extend(ids.iter().cloned());
            }
            found.live.extend(ids);
        }
        found.attempts = redis::cmd("HGETALL").arg(key("attempts")).query_async(connection).await?;
        for hash in ["jobs", "opts", "attempts"] {
            let ids: Vec<String> =
                redis::cmd("HKEYS").arg(key(hash)).query_async(connection).await?;
            found.live.extend(ids);
        }
        let infos: HashMap<String, String> =
            redis::cmd("HGETALL").arg(key("dead:info")).query_async(connection).await?;
        for (id, info) in infos {
            let info: Value = serde_json::from_str(&info).unwrap_or(Value::Null);
            found.dead.insert(id, info["class"].as_str().unwrap_or("no class").to_owned());
        }
        Ok(found)
    }

    /// True if a runner has the job under lease.
    pub(crate) fn is_running(&self, id: &str) -> bool {
        self.running.contains(id)
    }

    /// Attempts of a job that are settled; none said of one that has come to its end.
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
            "effects: orders closed and messages sent, by the shop's own ledger; {} requests came again",
            self.repeated
        )?;
        for (id, complaint) in self.complaints.iter().take(COMPLAINTS_SHOWN) {
            writeln!(f, "not accounted for: {id}: {complaint}")?;
        }
        if self.complaints.len() > COMPLAINTS_SHOWN {
            writeln!(f, "… and {} more", self.complaints.len() - COMPLAINTS_SHOWN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

    fn audit(found: &Found, word: &str) -> Audit {
        audit_with(found, word, &[true, false])
    }

    fn audit_with(found: &Found, word: &str, effects: &[bool]) -> Audit {
        let mut ledger = Ledger::default();
        let job = plan::late_order(1, 1_000);
        ledger.pushed(&job);
        ledger.heard(&job.id, 1, "d", 1_000_000, word);
        let key = format!("order.close/{}", job.id);
        let entry = |effect| Entry { what: "closed", of: job.id.clone(), key: key.clone(), effect };
        let effects: Vec<Entry> = effects.iter().map(|effect| entry(*effect)).collect();
        let mut audit = Audit { rows: Vec::new(), repeated: 0, complaints: BTreeMap::new() };
        audit.compare(Topic::OrderClose, &ledger, found, &Effects::read(&effects));
        audit
    }

    #[test]
    fn an_effect_is_had_once() {
        let none = Found::default();
        assert!(!audit_with(&none, "verdict=ack", &[]).is_complete());
        assert!(!audit_with(&none, "verdict=ack", &[true, true]).is_complete());
    }

    #[test]
    fn only_what_redis_and_the_handler_agree_on_is_accounted_for() {
        assert!(audit(&Found::default(), "verdict=ack").is_complete());
        assert!(!audit(&Found::default(), "verdict=nack").is_complete());
        let id = "late-order-0001".to_owned();
        let waiting = Found { live: HashSet::from([id.clone()]), ..Found::default() };
        assert!(audit(&waiting, "verdict=ack").to_string().contains("still waits"));
        let dead = |class: &str| Found {
            dead: HashMap::from([(id.clone(), class.to_owned())]),
            ..Found::default()
        };
        assert!(!audit(&dead("drop"), "verdict=ack").is_complete());
        assert!(audit(&dead("trap"), "verdict=ack").to_string().contains("died of trap"));
    }
}
