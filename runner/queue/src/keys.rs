//! Every key of the queue, and nowhere else. All keys of a topic share the hash tag `{topic}`, so
//! that a Redis Cluster keeps them in one slot and a script may touch them all.

use std::sync::Arc;

use duebox_job::TopicName;

use crate::Queue;

/// The keys of one topic (QUEUE.md §1).
pub(crate) struct TopicKeys {
    base: String,
}

/// The parts of a topic's keys, in the words of QUEUE.md.
macro_rules! topic_keys {
    ($($name:ident = $suffix:literal),+ $(,)?) => {
        impl TopicKeys {
            $(pub(crate) fn $name(&self) -> String {
                format!("{}{}", self.base, $suffix)
            })+
        }
    };
}

topic_keys! {
    jobs = "jobs", opts = "opts", pending = "pending", ready = "ready", unack = "unack",
    retry = "retry", attempts = "attempts", dead = "dead", dead_jobs = "dead:jobs",
    dead_opts = "dead:opts", dead_info = "dead:info", meta = "meta", holders = "holders",
    wake_channel = "wake",
}

impl Queue {
    /// The keys of a topic.
    pub(crate) fn keys(&self, topic: &TopicName) -> TopicKeys {
        TopicKeys { base: format!("{}:{{{topic}}}:", self.prefix) }
    }

    /// The set of topics seen; advisory, in a slot of its own.
    pub(crate) fn topics_key(&self) -> String {
        format!("{}:topics", self.prefix)
    }

    /// The pattern that every topic's wake channel matches.
    pub(crate) fn wake_pattern(&self) -> String {
        format!("{}:{{*}}:wake", glob_escaped(&self.prefix))
    }

    /// The topic whose wake channel this is.
    pub(crate) fn topic_of_channel(prefix: &Arc<str>, channel: &str) -> Option<TopicName> {
        let name = channel.strip_prefix(&**prefix)?.strip_prefix(":{")?.strip_suffix("}:wake")?;
        TopicName::new(name).ok()
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
        let prefix: Arc<str> = "due:box".into();
        let topic = Queue::topic_of_channel(&prefix, "due:box:{order.close}:wake");
        assert_eq!(topic, TopicName::new("order.close").ok());
        assert_eq!(Queue::topic_of_channel(&prefix, "other:{a}:wake"), None);
    }

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(glob_escaped("a*b[c]"), "a\\*b\\[c\\]");
    }
}
