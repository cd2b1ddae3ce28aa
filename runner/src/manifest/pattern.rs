//! Topic patterns: `sms.*` matches every topic whose name starts with `sms.`, and `*` matches all.
//!
//! A pattern is a prefix followed by one `*`. The longest matching prefix is therefore always the most
//! specific pattern.

use std::fmt;

use duebox_job::{TopicError, TopicName};

/// A prefix of topic names, written with a `*` at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    pub(super) prefix: String,
}

/// A topic name or a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameOrPattern {
    Name(TopicName),
    Pattern(TopicPattern),
}

/// Why a string is neither a topic name nor a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("`{pattern}`: {found:?} is not a wildcard; only a final '*' is")]
    Wildcard { pattern: String, found: char },
    #[error("`{0}`: a pattern may contain one '*', at its end")]
    Place(String),
    #[error(transparent)]
    Name(#[from] TopicError),
}

impl TopicPattern {
    /// Whether the pattern matches this name.
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
                "write a prefix and a '*', such as \"sms.*\", or list each topic"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_wildcards_are_refused() {
        for text in ["*.eu", "a*b", "**", "sms.**", "s*.*"] {
            let error = Err(PatternError::Place(text.to_owned()));
            assert_eq!(NameOrPattern::parse(text), error, "{text}");
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
