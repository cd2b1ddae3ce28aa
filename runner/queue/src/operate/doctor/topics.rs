//! The set of topics against the keys that there are. The set stands in a slot of its own, so the two
//! are never changed in one transition; what is done is safe in any order.

use std::collections::BTreeSet;

use bytes::Bytes;
use duebox_job::{Shard, TopicName};
use redis::Value;

use super::{Finding, FindingKind};
use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, bytes, count, text};
use crate::wire::{scan, script};

/// Keys that Redis looks at in one step.
const SCAN_COUNT: u64 = 1_000;

impl Queue {
    /// Compares the set of topics with the keys, and returns all shards that have keys, and the first
    /// shard of each topic in the set. A topic for which `is_served` holds may have no keys.
    ///
    /// Reads all keys of the database with SCAN, in steps of 1,000: O(keys), and no step blocks
    /// Redis.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn examine_topics(
        &self,
        repair: bool,
        is_served: impl Fn(&TopicName) -> bool,
        found: &mut impl FnMut(Finding),
    ) -> Result<Vec<Shard>, QueueError> {
        let mut shards = self.scan_shards().await?;
        let mut tell = |topic: Option<&TopicName>, kind, subject: Bytes, detail: &str, done| {
            let topic = topic.map(TopicName::to_string).unwrap_or_default();
            found(Finding { topic, kind, subject, detail: detail.to_owned(), done });
        };
        let set = Bytes::from(self.keys.topics_key());
        if let Some(of_type) = self.wrong_set().await? {
            let done = if repair { self.set_aside().await? } else { String::new() };
            tell(None, FindingKind::WrongType, set, &format!("a {of_type}, not a set"), done);
            if !repair {
                return Ok(shards.into_iter().collect());
            }
        }
        let mut listed = BTreeSet::new();
        for name in self.listed_names().await? {
            let topic = text(&Value::BulkString(name.to_vec())).ok().map(TopicName::new);
            if let Some(Ok(topic)) = topic {
                listed.insert(topic);
                continue;
            }
            let done = if repair { self.unlist(&name).await? } else { "" };
            tell(None, FindingKind::BadTopic, name, "no name of a topic", done.to_owned());
        }
        // A topic with shards may have keys in some of them only.
        let with_keys: BTreeSet<TopicName> =
            shards.iter().map(|shard| shard.topic().clone()).collect();
        for topic in listed.iter().filter(|topic| !with_keys.contains(*topic) && !is_served(topic))
        {
            let done = if repair { self.unlist_empty(topic).await? } else { "" };
            let subject = Bytes::copy_from_slice(topic.as_str().as_bytes());
            let detail = "it has no keys, and the manifest does not serve it";
            tell(Some(topic), FindingKind::EmptyTopic, subject, detail, done.to_owned());
        }
        for topic in with_keys.difference(&listed) {
            if repair {
                self.register(std::slice::from_ref(topic)).await?;
            }
            let subject = Bytes::copy_from_slice(topic.as_str().as_bytes());
            let done = if repair { "listed" } else { "" };
            let detail = "it has keys, and is not in the set of topics";
            tell(Some(topic), FindingKind::UnlistedTopic, subject, detail, done.to_owned());
        }
        shards.extend(listed.iter().map(TopicName::first_shard));
        Ok(shards.into_iter().collect())
    }

    /// The shards that have keys.
    async fn scan_shards(&self) -> Result<BTreeSet<Shard>, QueueError> {
        let mut shards = BTreeSet::new();
        let mut position = scan::START.to_owned();
        loop {
            let pattern = self.keys.key_pattern();
            let (next, keys) =
                scan::step(&self.connection, &position, &pattern, SCAN_COUNT).await?;
            for key in keys {
                shards.extend(text(&key).ok().and_then(|key| self.keys.shard_of_key(key)));
            }
            if next == scan::START {
                return Ok(shards);
            }
            position = next;
        }
    }

    async fn listed_names(&self) -> Result<Vec<Bytes>, QueueError> {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys.topics_key());
        array(script::run_one(&self.connection, members).await?)?.into_iter().map(bytes).collect()
    }

    /// The type of the key of topics, if it is not a set.
    async fn wrong_set(&self) -> Result<Option<String>, QueueError> {
        let mut ask = redis::cmd("TYPE");
        ask.arg(self.keys.topics_key());
        let of_type = text(&script::run_one(&self.connection, ask).await?)?.to_owned();
        Ok((of_type != "set" && of_type != "none").then_some(of_type))
    }

    async fn set_aside(&self) -> Result<String, QueueError> {
        let time = array(script::run_one(&self.connection, redis::cmd("TIME")).await?)?;
        let seconds = text(time.first().unwrap_or(&Value::Nil))?.to_owned();
        let broken = self.keys.broken_topics_key(&format!("{seconds}000"));
        let mut rename = redis::cmd("RENAMENX");
        rename.arg(self.keys.topics_key()).arg(&broken);
        script::run_one(&self.connection, rename).await?;
        Ok(format!("renamed to {broken}"))
    }

    async fn unlist(&self, name: &[u8]) -> Result<&'static str, QueueError> {
        let mut remove = redis::cmd("SREM");
        remove.arg(self.keys.topics_key()).arg(name);
        script::run_one(&self.connection, remove).await.map(|_| "removed")
    }

    /// Removes a topic without keys from the set. A topic that is pushed to meanwhile comes back: a
    /// push lists its topic after its job, so one of the two sees the other.
    async fn unlist_empty(&self, topic: &TopicName) -> Result<&'static str, QueueError> {
        self.unlist(topic.as_str().as_bytes()).await?;
        let keys = self.keys.of_first(topic);
        let mut exist = redis::cmd("EXISTS");
        for name in ["jobs", "pending", "ready", "unack", "retry", "dead", "meta", "kv"] {
            exist.arg(keys.key(name));
        }
        if count(&script::run_one(&self.connection, exist).await?)? == 0 {
            return Ok("removed");
        }
        self.register(std::slice::from_ref(topic)).await?;
        Ok("kept: it was pushed to meanwhile")
    }
}
