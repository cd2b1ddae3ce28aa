//! The name of a topic. It stands inside `{…}` in every key, so it can hold no brace.

use std::fmt;
use std::sync::Arc;

/// A topic's name: 1 to 128 of `A-Z a-z 0-9 . _ -`. Cloning it copies no text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

/// Why a text is no topic name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// The name has no character.
    #[error("a topic name must not be empty")]
    Empty,
    /// The name is longer than [`TopicName::LEN_MAX`].
    #[error("the topic name is {0} bytes long; at most {max} are allowed", max = TopicName::LEN_MAX)]
    TooLong(usize),
    /// The name holds a character outside the allowed ones.
    #[error(
        "the topic name {name:?} holds {found:?}; allowed are letters, digits, '.', '_' and '-'"
    )]
    Character {
        /// The name as given.
        name: String,
        /// The first offending character.
        found: char,
    },
}

impl TopicName {
    /// The longest name, in bytes.
    pub const LEN_MAX: usize = 128;

    /// Checks a name.
    ///
    /// # Errors
    /// [`TopicError`] if it is empty, too long, or holds a character outside the allowed ones.
    pub fn new(name: &str) -> Result<Self, TopicError> {
        if name.is_empty() {
            return Err(TopicError::Empty);
        }
        if name.len() > Self::LEN_MAX {
            return Err(TopicError::TooLong(name.len()));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        match name.chars().find(|c| !allowed(*c)) {
            Some(found) => Err(TopicError::Character { name: name.to_owned(), found }),
            None => Ok(Self(Arc::from(name))),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_field_pass() {
        for name in ["order.close", "sms_eu-1", "A", &"x".repeat(128)] {
            assert_eq!(TopicName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn braces_stars_and_spaces_are_refused_by_name() {
        for (name, found) in [("a{b}", '{'), ("sms.*", '*'), ("a b", ' '), ("ä", 'ä')] {
            let refused = TopicError::Character { name: name.to_owned(), found };
            assert_eq!(TopicName::new(name), Err(refused));
        }
        assert_eq!(TopicName::new(""), Err(TopicError::Empty));
        assert_eq!(TopicName::new(&"x".repeat(129)), Err(TopicError::TooLong(129)));
    }
}
