//! Patterns of topics: `sms.*` stands for every topic whose name starts with `sms.`, `*` for all.
//!
//! A pattern is a prefix and one `*` at its end, nothing else: which of two is the closer one is then
//! plain to see, and looking one up needs no search.

use std::fmt;

use duebox_job::{TopicError, TopicName};

use super::topic::Topic;

/// A prefix of topic names; written with a `*` at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    prefix: String,
}

/// A topic's name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameOrPattern {
    Name(TopicName),
    Pattern(TopicPattern),
}

/// Why a text is neither a name nor a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("`{pattern}`: {found:?} is no wildcard here; the only one is a '*' at the end")]
    Wildcard { pattern: String, found: char },
    #[error("`{0}`: a pattern has one '*', and that at its end")]
    Place(String),
    #[error(transparent)]
    Name(#[from] TopicError),
}

impl TopicPattern {
    /// True if the pattern stands for this name.
    pub fn matches(&self, name: &TopicName) -> bool {
        name.as_str().starts_with(&self.prefix)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*", self.prefix)
    }
}

impl NameOrPattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        if let Some(found) = text.chars().find(|c| matches!(c, '?' | '[' | ']')) {
            return Err(PatternError::Wildcard { pattern: text.to_owned(), found });
        }
        match text.split_once('*') {
            None => Ok(Self::Name(TopicName::new(text)?)),
            Some((prefix, "")) => {
                if !prefix.is_empty() {
                    TopicName::new(prefix)?;
                }
                Ok(Self::Pattern(TopicPattern { prefix: prefix.to_owned() }))
            }
            Some(_) => Err(PatternError::Place(text.to_owned())),
        }
    }
}

impl PatternError {
    /// The remedy.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) => "choose a name of 1 to 128 letters, digits, '.', '_' and '-'",
            Self::Wildcard { .. } | Self::Place(_) => {
                "write a prefix and a '*', such as \"sms.*\", or name each topic by itself"
            }
        }
    }
}

/// The patterns of a manifest, the closest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Patterns {
    closest_first: Vec<(TopicPattern, Topic)>,
}

impl Patterns {
    pub(super) fn new(mut patterns: Vec<(TopicPattern, Topic)>) -> Self {
        patterns.sort_by(|(a, _), (b, _)| {
            b.prefix.len().cmp(&a.prefix.len()).then_with(|| a.prefix.cmp(&b.prefix))
        });
        Self { closest_first: patterns }
    }

    /// The pattern with the longest prefix of those that stand for this name, and its settings.
    pub fn find(&self, name: &TopicName) -> Option<(&TopicPattern, &Topic)> {
        self.iter().find(|(pattern, _)| pattern.matches(name))
    }

    /// All of them, the closest first.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPattern, &Topic)> {
        self.closest_first.iter().map(|(pattern, topic)| (pattern, topic))
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.closest_first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::topic::TopicSettings;

    fn pattern(text: &str) -> TopicPattern {
        match NameOrPattern::parse(text) {
            Ok(NameOrPattern::Pattern(pattern)) => pattern,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let topic = |text: &str| {
            let topic =
                Topic::new(Some(text.into()), TopicSettings::default(), &TopicSettings::default());
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

    #[test]
    fn any_other_glob_is_refused() {
        for text in ["*.eu", "a*b", "**", "sms.**", "s*.*"] {
            let place = Err(PatternError::Place(text.to_owned()));
            assert_eq!(NameOrPattern::parse(text), place, "{text}");
        }
        for (text, found) in [("sms.?", '?'), ("[ab]*", '['), ("ab]", ']')] {
            let wildcard = PatternError::Wildcard { pattern: text.to_owned(), found };
            assert_eq!(NameOrPattern::parse(text), Err(wildcard), "{text}");
        }
        for text in ["two words*", "{a,b}*", ""] {
            let error = NameOrPattern::parse(text).unwrap_err();
            assert!(matches!(error, PatternError::Name(_)), "{text}: {error}");
        }
    }
}
