//! The patterns of a manifest, with the settings of the topics that they match.

use duebox_job::TopicName;

use super::pattern::TopicPattern;
use super::topic::Topic;

/// The patterns of a manifest, the longest prefix first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patterns {
    longest_first: Vec<(TopicPattern, Topic)>,
}

impl Patterns {
    pub(super) fn new(mut patterns: Vec<(TopicPattern, Topic)>) -> Self {
        patterns.sort_by(|(a, _), (b, _)| {
            b.prefix.len().cmp(&a.prefix.len()).then_with(|| a.prefix.cmp(&b.prefix))
        });
        Self { longest_first: patterns }
    }

    /// The matching pattern with the longest prefix, and its settings.
    pub fn find(&self, name: &TopicName) -> Option<(&TopicPattern, &Topic)> {
        self.iter().find(|(pattern, _)| pattern.matches(name))
    }

    /// All patterns, the longest prefix first.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPattern, &Topic)> {
        self.longest_first.iter().map(|(pattern, topic)| (pattern, topic))
    }

    /// Whether the manifest has no pattern.
    pub fn is_empty(&self) -> bool {
        self.longest_first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::pattern::NameOrPattern;
    use crate::manifest::topic_table::TopicTable;

    fn pattern(text: &str) -> TopicPattern {
        match NameOrPattern::parse(text) {
            Ok(NameOrPattern::Pattern(pattern)) => pattern,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_longest_matching_prefix_is_found_in_any_order() {
        let topic = |text: &str| {
            let topic =
                Topic::new(Some(text.into()), TopicTable::default(), &TopicTable::default());
            (pattern(text), topic)
        };
        let patterns = Patterns::new(["*", "sms.eu.*", "sms.*", "mail*"].map(topic).to_vec());
        for (name, closest) in [
            ("sms.eu.de", "sms.eu.*"),
            ("sms.eu", "sms.*"),
            ("sms.", "sms.*"),
            ("mail", "mail*"),
            ("mails.out", "mail*"),
            ("order", "*"),
        ] {
            let (found, topic) = patterns.find(&TopicName::new(name).unwrap()).unwrap();
            assert_eq!(found.to_string(), closest, "{name}");
            assert_eq!(topic.handler.as_deref(), Some(closest.as_ref()), "{name}");
        }
        let none = Patterns::new(vec![topic("sms.*")]);
        assert_eq!(none.find(&TopicName::new("sms").unwrap()), None);
    }
}
