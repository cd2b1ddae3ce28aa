//! The name of a topic, or of one of its shards. It stands inside `{…}` in every key, so it contains
//! no brace. Only the topic's name is shown; the tag of a shard adds `#` and its number, and `#` is
//! not allowed in names.

use std::fmt;
use std::sync::Arc;

/// The name of a topic: 1 to 128 of `A-Z a-z 0-9 . _ -`; or one of its shards. Shard 0 has the name
/// of the topic itself. `Display` shows the topic's name for every shard. Cloning copies no text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName {
    /// The name; for shards other than 0 also `#` and their number.
    tag: Arc<str>,
    /// Bytes of the tag that are the topic's name.
    base_len: usize,
}

/// An invalid topic name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// The name is empty.
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
    /// The most shards a topic can have.
    pub const SHARDS_MAX: u32 = 64;

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
            None => Ok(Self { tag: Arc::from(name), base_len: name.len() }),
        }
    }

    /// Parses the tag in the braces of a key: a topic's name, for shards 1 to 63 followed by `#` and
    /// the number.
    ///
    /// # Errors
    /// [`TopicError`] if the tag is invalid.
    pub fn from_tag(tag: &str) -> Result<Self, TopicError> {
        let shard = tag.split_once('#').and_then(|(base, number)| {
            let shard = Self::new(base).ok()?.shard(number.parse().ok()?);
            (shard.tag() == tag).then_some(shard)
        });
        shard.map_or_else(|| Self::new(tag), Ok)
    }

    /// The topic's name as text, for any shard.
    pub fn as_str(&self) -> &str {
        &self.tag[..self.base_len]
    }

    /// The tag in the braces of this shard's keys.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// A shard of this topic, 0 to 63; larger numbers count as 63.
    pub fn shard(&self, number: u32) -> Self {
        match number.min(Self::SHARDS_MAX - 1) {
            0 => self.base(),
            number => {
                Self { tag: format!("{}#{number}", self.as_str()).into(), base_len: self.base_len }
            }
        }
    }

    /// The number of this shard; 0 for the first, which has the topic's own name.
    pub fn shard_number(&self) -> u32 {
        self.tag.get(self.base_len + 1..).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The topic of this shard.
    pub fn base(&self) -> Self {
        if self.tag.len() == self.base_len {
            return self.clone();
        }
        Self { tag: self.as_str().into(), base_len: self.base_len }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.tag())
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
    fn a_shard_is_shown_as_its_topic() {
        let topic = TopicName::new("order.close").unwrap();
        let third = topic.shard(2);
        assert_eq!((third.to_string(), third.as_str()), ("order.close".into(), "order.close"));
        assert_eq!((third.tag(), third.shard_number()), ("order.close#2", 2));
        assert_eq!((topic.tag(), topic.shard_number()), ("order.close", 0));
        assert_eq!(
            (third.base(), third.shard(0), topic.shard(0)),
            (topic.clone(), topic.clone(), topic.clone())
        );
        assert_ne!(third, topic);
        for shard in [topic.clone(), third, topic.shard(63)] {
            assert_eq!(TopicName::from_tag(shard.tag()), Ok(shard));
        }
    }

    #[test]
    fn what_is_no_tag_of_a_shard_is_refused() {
        for tag in ["a#", "a#0", "a#01", "a#64", "a#-1", "a#1#1", "#1", "a#x", ""] {
            assert!(TopicName::from_tag(tag).is_err(), "{tag}");
        }
        assert!(TopicName::new("a#1").is_err());
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
