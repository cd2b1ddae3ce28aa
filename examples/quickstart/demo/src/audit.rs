//! The account at the end: where Redis says each job is, held against the ledger.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use anyhow::Context;
use redis::aio::ConnectionManager;
use serde_json::Value;

use crate::ledger::Ledger;
use crate::plan::{End, Topic};

/// Complaints that are shown.
const COMPLAINTS_SHOWN: usize = 12;

/// What stands over the columns of the table.
const HEAD: &str = "topic           handler in      pushed  acked  retried  dead  accounted";

/// What came of the jobs of one topic.
#[derive(Debug, Default, Clone, Copy)]
struct Row {
    pushed: u64,
    acked: u64,
    retried: u64,
    dead: u64,
    accounted: u64,
}

/// The account of the whole demo.
#[derive(Debug)]
pub(crate) struct Audit {
    rows: Vec<(Topic, Row)>,
    complaints: BTreeMap<String, String>,
}

/// What Redis holds of one topic.
#[derive(Debug, Default)]
struct Found {
    live: HashSet<String>,
    dead: HashMap<String, String>,
}

impl Audit {
    /// Reads Redis and compares.
    pub(crate) async fn make(
        ledger: &Ledger,
        connection: &mut ConnectionManager,
    ) -> anyhow::Result<Self> {
        let mut audit = Self { rows: Vec::new(), complaints: BTreeMap::new() };
        for topic in Topic::ALL {
            let found = Found::read(topic, connection).await?;
            audit.compare(topic, ledger, &found);
        }
        Ok(audit)
    }

    fn compare(&mut self, topic: Topic, ledger: &Ledger, found: &Found) {
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

/// The demo's plan ends jobs as these classes only.
fn known(class: &str) -> Result<(), String> {
    if matches!(class, "drop" | "nack") { Ok(()) } else { Err(format!("died of {class}")) }
}

impl Found {
    async fn read(topic: Topic, connection: &mut ConnectionManager) -> anyhow::Result<Self> {
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
            found.live.extend(ids);
        }
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
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, language: &str, row: Row| {
            let Row { pushed, acked, retried, dead, accounted } = row;
            write!(f, "{name:<16}{language:<15}")?;
            writeln!(f, "{pushed:>7}{acked:>7}{retried:>9}{dead:>6}{accounted:>11}")
        };
        writeln!(f, "{HEAD}")?;
        let mut sum = Row::default();
        for (topic, row) in &self.rows {
            line(f, topic.name(), topic.language(), *row)?;
            sum.pushed += row.pushed;
            sum.acked += row.acked;
            sum.retried += row.retried;
            sum.dead += row.dead;
            sum.accounted += row.accounted;
        }
        line(f, "all", "", sum)?;
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
        let mut ledger = Ledger::default();
        let job = plan::late_order(1, 1_000);
        ledger.pushed(&job);
        ledger.heard(&job.id, "d", 1_000_000, word);
        let mut audit = Audit { rows: Vec::new(), complaints: BTreeMap::new() };
        audit.compare(Topic::OrderClose, &ledger, found);
        audit
    }

    #[test]
    fn only_what_redis_and_the_handler_agree_on_is_accounted_for() {
        assert!(audit(&Found::default(), "verdict=ack").is_complete());
        assert!(!audit(&Found::default(), "verdict=nack").is_complete());
        let id = "late-order-0001".to_owned();
        let waiting = Found { live: HashSet::from([id.clone()]), dead: HashMap::new() };
        assert!(audit(&waiting, "verdict=ack").to_string().contains("still waits"));
        let dead = |class: &str| Found {
            live: HashSet::new(),
            dead: HashMap::from([(id.clone(), class.to_owned())]),
        };
        assert!(!audit(&dead("drop"), "verdict=ack").is_complete());
        assert!(audit(&dead("trap"), "verdict=ack").to_string().contains("died of trap"));
    }
}
