//! The id of a job. An id pushed through Duebox is 1 to 256 visible ASCII characters. A plain
//! producer may write any bytes, and its job runs like any other.

use std::fmt;

use bytes::Bytes;

/// A job's id, unique among the live jobs of its topic. Cloning it copies no bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Bytes);

/// An invalid job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The id is empty.
    #[error("a job id must not be empty")]
    Empty,
    /// The id is longer than [`JobId::LEN_MAX`].
    #[error("the job id is {0} bytes long; at most {max} are allowed", max = JobId::LEN_MAX)]
    TooLong(usize),
    /// The id holds a character that is not visible ASCII.
    #[error(
        "the job id {id:?} holds {found:?}; allowed are visible ASCII characters (letters, digits and punctuation, no spaces)"
    )]
    Character {
        /// The id as given.
        id: String,
        /// The first offending character.
        found: char,
    },
}

impl JobId {
    /// The longest id that can be pushed, in bytes.
    pub const LEN_MAX: usize = 256;

    /// Checks an id that a caller chose.
    ///
    /// # Errors
    /// [`IdError`] if it is empty, too long, or holds anything but visible ASCII.
    pub fn new(id: impl Into<String>) -> Result<Self, IdError> {
        let id = id.into();
        if id.is_empty() {
            return Err(IdError::Empty);
        }
        if id.len() > Self::LEN_MAX {
            return Err(IdError::TooLong(id.len()));
        }
        match id.chars().find(|c| !c.is_ascii_graphic()) {
            Some(found) => Err(IdError::Character { id, found }),
            None => Ok(Self(Bytes::from(id))),
        }
    }

    /// Generates a unique id; later ids sort after it (UUID version 7, RFC 9562).
    pub fn generate() -> Self {
        Self(Bytes::from(uuid::Uuid::now_v7().to_string()))
    }

    /// An id as Redis holds it, of any bytes: a plain producer's job must run too.
    pub fn from_redis(id: impl Into<Bytes>) -> Self {
        Self(id.into())
    }

    /// The bytes as Redis holds them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_ascii_is_an_id() {
        assert_eq!(JobId::new("order:42/{x}").unwrap().to_string(), "order:42/{x}");
    }

    #[test]
    fn what_is_refused_is_named() {
        assert_eq!(JobId::new(""), Err(IdError::Empty));
        assert_eq!(JobId::new("x".repeat(257)), Err(IdError::TooLong(257)));
        let spaced = JobId::new("a b").unwrap_err();
        assert!(spaced.to_string().contains("' '"), "{spaced}");
        assert!(JobId::new("päckchen").is_err());
    }

    #[test]
    fn made_ids_are_in_the_order_of_time() {
        let ids: Vec<JobId> = (0..1_000).map(|_| JobId::generate()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(JobId::new(ids[0].to_string()).as_ref(), Ok(&ids[0]));
    }

    #[test]
    fn any_bytes_from_redis_are_kept() {
        assert_eq!(JobId::from_redis(vec![0xff, 0]).as_bytes(), [0xff, 0]);
    }
}
