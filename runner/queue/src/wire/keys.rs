//! Every key of the queue, and nowhere else. All keys of a topic share the hash tag `{topic}`, so
//! that a Redis Cluster keeps them in one slot and a script may touch them all.

use std::sync::Arc;

use duebox_job::TopicName;

/// The keys of all topics that share a prefix.
#[derive(Clone)]
pub(crate) struct Keys {
    prefix: Arc<str>,
}

/// The keys of one topic.
pub(crate) struct TopicKeys {
    base: String,
}

impl TopicKeys {
    /// The names of all keys (docs/queue.md).
    #[cfg(test)]
    pub(crate) const NAMES: [&'static str; 29] = [
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

    /// The keys of a topic's shard.
    pub(crate) fn of(&self, topic: &TopicName) -> TopicKeys {
        TopicKeys { base: format!("{}:{{{}}}:", self.prefix, topic.tag()) }
    }

    /// The set of topics seen; advisory, in a slot of its own.
    pub(crate) fn topics_key(&self) -> String {
        format!("{}:topics", self.prefix)
    }

    /// The runners by the time at which their word lapses; advisory, in a slot of its own.
    pub(crate) fn runners_key(&self) -> String {
        format!("{}:runners", self.prefix)
    }

    /// The stream of what became of jobs, in a slot of its own.
    pub(crate) fn events_key(&self) -> String {
        format!("{}:events", self.prefix)
    }

    /// What a runner says of itself.
    pub(crate) fn runner_key(&self, runner_id: &str) -> String {
        format!("{}:runner:{runner_id}", self.prefix)
    }

    /// The channel of orders to all daemons.
    pub(crate) fn orders_channel(&self) -> String {
        format!("{}:orders", self.prefix)
    }

    /// The list of the answers to an order.
    pub(crate) fn answers_key(&self, id: &str) -> String {
        format!("{}:answers:{id}", self.prefix)
    }

    /// The pattern that every topic's wake channel matches.
    pub(crate) fn wake_pattern(&self) -> String {
        format!("{}:{{*}}:wake", glob_escaped(&self.prefix))
    }

    /// The pattern that every key of every topic matches.
    pub(crate) fn key_pattern(&self) -> String {
        format!("{}:{{*}}:*", glob_escaped(&self.prefix))
    }

    /// The pattern that the keys match in which jobs wait that were pushed by plain commands.
    pub(crate) fn pending_pattern(&self) -> String {
        format!("{}:{{*}}:pending", glob_escaped(&self.prefix))
    }

    /// The topic, or the shard of one, whose key this is.
    pub(crate) fn topic_of_key(&self, key: &str) -> Option<TopicName> {
        let (tag, _) = key.strip_prefix(&*self.prefix)?.strip_prefix(":{")?.split_once("}:")?;
        TopicName::from_tag(tag).ok()
    }

    /// The topic, or the shard of one, whose wake channel this is.
    pub(crate) fn topic_of_channel(&self, channel: &str) -> Option<TopicName> {
        let tag =
            channel.strip_prefix(&*self.prefix)?.strip_prefix(":{")?.strip_suffix("}:wake")?;
        TopicName::from_tag(tag).ok()
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
    fn a_channel_names_its_topic() {
        let keys = Keys::new("due:box");
        let topic = keys.topic_of_channel("due:box:{order.close}:wake");
        let name = TopicName::new("order.close").unwrap();
        assert_eq!(topic, Some(name.clone()));
        let shard = keys.topic_of_channel("due:box:{order.close#3}:wake");
        assert_eq!(shard, Some(name.shard(3)));
        assert_eq!(keys.topic_of_channel("other:{a}:wake"), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*b[c]"), "a\\*b\\[c\\]");
    }
}
