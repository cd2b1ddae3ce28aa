//! All key names of the queue. The keys of one topic share the hash tag `{topic}`: Redis Cluster
//! keeps them in one slot, and one script may use them all.

use std::sync::Arc;

use duebox_job::{Shard, TopicName};

/// The keys of all topics that share a prefix.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

/// The keys of one shard.
pub(crate) struct ShardKeys {
    base: String,
}

impl ShardKeys {
    /// The names of all keys of a topic (docs/reference/queue.md).
    #[cfg(test)]
    pub(crate) const NAMES: [&'static str; 32] = [
        "jobs",
        "opts",
        "pending",
        "ready",
        "unack",
        "retry",
        "blocked",
        "blocked:at",
        "turns",
        "turns:of",
        "attempts",
        "errors",
        "dead",
        "dead:jobs",
        "dead:opts",
        "dead:info",
        "recordings",
        "recordings:at",
        "done",
        "done:jobs",
        "done:info",
        "done:result",
        "unique",
        "outbox",
        "inbox",
        "ticks",
        "kv",
        "kv:rev",
        "kv:at",
        "kv:calls",
        "meta",
        "holders",
    ];

    /// The key of this name.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.base)
    }
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The keys of a shard.
    pub(crate) fn of(&self, shard: &Shard) -> ShardKeys {
        ShardKeys { base: format!("{}:{{{}}}:", self.prefix, shard.tag()) }
    }

    /// The keys of these names of each of these shards.
    pub(crate) fn of_each(&self, shards: &[Shard], names: &[&str]) -> Vec<String> {
        let each = shards.iter().map(|shard| self.of(shard));
        each.flat_map(|keys| names.iter().map(move |name| keys.key(name))).collect()
    }

    /// The keys of a topic's first shard, which has what belongs to the topic as a whole.
    pub(crate) fn of_first(&self, topic: &TopicName) -> ShardKeys {
        self.of(&topic.first_shard())
    }

    /// The set of known topics; advisory, in a slot of its own.
    pub(crate) fn topics_key(&self) -> String {
        format!("{}:topics", self.prefix)
    }

    /// A name for a key of another type that was found in the place of the set of topics. It has the slot of that set,
    /// so that the key can be renamed in a cluster.
    pub(crate) fn broken_topics_key(&self, now_ms: &str) -> String {
        format!("{}:{{{}}}:broken:{now_ms}", self.prefix, self.topics_key())
    }

    /// The version of the layout, in a slot of its own.
    pub(crate) fn layout_key(&self) -> String {
        format!("{}:layout", self.prefix)
    }

    /// The last push of one caller, next to the keys of the shard.
    pub(crate) fn caller_key(&self, shard: &Shard, caller: &str) -> String {
        format!("{}:pushed:{{{}}}:{caller}", self.prefix, shard.tag())
    }

    /// The runners by the time at which their status expires; advisory, in a slot of its own.
    pub(crate) fn runners_key(&self) -> String {
        format!("{}:runners", self.prefix)
    }

    /// The stream of events, in a slot of its own.
    pub(crate) fn events_key(&self) -> String {
        format!("{}:events", self.prefix)
    }

    /// The status of one runner.
    pub(crate) fn runner_key(&self, runner_id: &str) -> String {
        format!("{}:runner:{runner_id}", self.prefix)
    }

    /// The runners with a history, by the time at which they added to it last; in a slot of its own.
    pub(crate) fn histories_key(&self) -> String {
        format!("{}:histories", self.prefix)
    }

    /// The history of one runner.
    pub(crate) fn history_key(&self, runner_id: &str) -> String {
        format!("{}:history:{runner_id}", self.prefix)
    }

    /// The channel that reaches all daemons.
    pub(crate) fn control_channel(&self) -> String {
        format!("{}:orders", self.prefix)
    }

    /// The list of replies to one message on the control channel.
    pub(crate) fn answers_key(&self, id: &str) -> String {
        format!("{}:answers:{id}", self.prefix)
    }

    /// The pattern of all wake-up channels.
    pub(crate) fn wake_pattern(&self) -> String {
        format!("{}:{{*}}:wake", glob_escaped(&self.prefix))
    }

    /// The pattern of all keys of the queue, as an ACL names it.
    pub(crate) fn all_keys(&self) -> String {
        format!("{}:*", glob_escaped(&self.prefix))
    }

    /// The pattern of all keys of all topics.
    pub(crate) fn key_pattern(&self) -> String {
        format!("{}:{{*}}:*", glob_escaped(&self.prefix))
    }

    /// The pattern of all `pending` keys, which plain producers write.
    pub(crate) fn pending_pattern(&self) -> String {
        format!("{}:{{*}}:pending", glob_escaped(&self.prefix))
    }

    /// The shard that a key belongs to.
    pub(crate) fn shard_of_key(&self, key: &str) -> Option<Shard> {
        let (tag, _) = key.strip_prefix(&*self.prefix)?.strip_prefix(":{")?.split_once("}:")?;
        Shard::from_tag(tag).ok()
    }

    /// The shard that a wake-up channel belongs to.
    pub(crate) fn shard_of_channel(&self, channel: &str) -> Option<Shard> {
        let tag =
            channel.strip_prefix(&*self.prefix)?.strip_prefix(":{")?.strip_suffix("}:wake")?;
        Shard::from_tag(tag).ok()
    }
}

fn glob_escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_names_its_shard() {
        let keys = Keys::new("due:box");
        let topic = TopicName::new("order.close").unwrap();
        let first = keys.shard_of_channel("due:box:{order.close}:wake");
        assert_eq!(first, Some(topic.first_shard()));
        let fourth = keys.shard_of_channel("due:box:{order.close#3}:wake");
        assert_eq!(fourth, Some(topic.shard(3)));
        assert_eq!(keys.shard_of_channel("other:{a}:wake"), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*b[c]"), "a\\*b\\[c\\]");
    }
}
