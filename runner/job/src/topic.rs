//! The name of a topic, and its shards. A name stands inside `{…}` in every key, so it contains no brace.
//! The tag of a shard adds `#` and its number, and `#` is not allowed in names.

use std::fmt;
use std::sync::Arc;

/// The name of a topic: 1 to 128 of `A-Z a-z 0-9 . _ -`. Cloning copies no text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName(Arc<str>);

/// One shard of a topic: the keys that lie in one hash slot of Redis. A topic that is not split has the
/// first shard alone. `Display` shows its tag: the topic's name, for shards 1 to 63 followed by `#` and
/// the number. Cloning copies no text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard {
    tag: Arc<str>,
    topic: TopicName,
    number: u32,
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
            None => Ok(Self(Arc::from(name))),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shard that every topic has.
    pub fn first_shard(&self) -> Shard {
        Shard { tag: Arc::clone(&self.0), topic: self.clone(), number: 0 }
    }

    /// A shard of this topic, 0 to 63; larger numbers count as 63.
    pub fn shard(&self, number: u32) -> Shard {
        match number.min(Self::SHARDS_MAX - 1) {
            0 => self.first_shard(),
            number => Shard { tag: format!("{self}#{number}").into(), topic: self.clone(), number },
        }
    }
}

impl Shard {
    /// Parses the tag in the braces of a key: a topic's name, for shards 1 to 63 followed by `#` and
    /// the number.
    ///
    /// # Errors
    /// [`TopicError`] if the tag is invalid.
    pub fn from_tag(tag: &str) -> Result<Self, TopicError> {
        let shard = tag.split_once('#').and_then(|(topic, number)| {
            let shard = TopicName::new(topic).ok()?.shard(number.parse().ok()?);
            (shard.tag() == tag).then_some(shard)
        });
        match shard {
            Some(shard) => Ok(shard),
            None => Ok(TopicName::new(tag)?.first_shard()),
        }
    }

    /// The topic of this shard.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// The number of this shard, 0 to 63.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The tag in the braces of this shard's keys.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag())
    }
}

impl fmt::Debug for Shard {
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
    fn a_shard_is_shown_by_its_tag() {
        let topic = TopicName::new("order.close").unwrap();
        let third = topic.shard(2);
        assert_eq!((third.to_string().as_str(), third.number()), ("order.close#2", 2));
        assert_eq!((third.topic(), third.tag()), (&topic, "order.close#2"));
        let first = topic.first_shard();
        assert_eq!((first.tag(), first.number()), ("order.close", 0));
        assert_eq!((&first, &topic.shard(64)), (&topic.shard(0), &topic.shard(63)));
        for shard in [first, third, topic.shard(63)] {
            assert_eq!(Shard::from_tag(shard.tag()), Ok(shard));
        }
    }

    #[test]
    fn what_is_no_tag_of_a_shard_is_refused() {
        for tag in ["a#", "a#0", "a#01", "a#64", "a#-1", "a#1#1", "#1", "a#x", ""] {
            assert!(Shard::from_tag(tag).is_err(), "{tag}");
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
