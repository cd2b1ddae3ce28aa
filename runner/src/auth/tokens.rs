//! Bearer tokens: the scopes and topics that each allows over HTTP.
//!
//! The file contains a table for each token, with its SHA-256 instead of the token itself, so a leaked file
//! grants no access. A token has 256 random bits and cannot be guessed. A plain SHA-256 is therefore enough,
//! and slow password hashes would only delay each request.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use duebox_job::TopicName;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::regular_file;

/// The largest token file, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// The prefix of every token, by which scanners recognize a leaked one.
const PREFIX: &str = "duebox_";
/// The number of random bytes in a token.
const RANDOM: usize = 32;

/// A group of operations that a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Push, cancel, reschedule and run jobs.
    Push,
    /// Pull, settle and extend jobs.
    Consume,
    /// Read jobs with their payloads, results and failures.
    Read,
    /// Read the metrics and the details of the probes, of all topics.
    Metrics,
    /// All operations.
    Admin,
}

/// One token.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// Its name in the file, which the log and the holder of a job show.
    pub name: String,
    hash: [u8; 32],
    scopes: Vec<Scope>,
    topics: Vec<TopicRange>,
}

/// The tokens of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<Arc<Token>>);

/// Topics that a token allows: one topic, or all with a prefix.
#[derive(Debug, PartialEq, Eq)]
struct TopicRange {
    start: String,
    is_prefix: bool,
}

/// A token in the form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenToken {
    sha256: String,
    scopes: Vec<Scope>,
    topics: Vec<String>,
}

/// Why a token file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is too large.
    #[error("it is larger than 1 MiB")]
    TooLarge,
    /// It is not TOML, or has other keys or values.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// It has no tokens.
    #[error("it contains no token")]
    Empty,
    /// A name is invalid.
    #[error("{0:?} is not a token name: use 1 to 64 visible ASCII characters")]
    Name(String),
    /// The hash of this token is invalid.
    #[error("the sha256 of {0} is not 64 hex digits; see duebox token new")]
    Hash(String),
    /// This token has no scopes.
    #[error("{0} has no scopes: write some of push, consume, read, metrics and admin")]
    NoScopes(String),
    /// This token has no topics.
    #[error("{0} has no topics: write names or prefixes, such as \"order.*\" or \"*\"")]
    NoTopics(String),
    /// A topic is invalid.
    #[error(
        "{topic:?} in the topics of {token} is neither a topic name nor a prefix with a final *"
    )]
    Topic {
        /// The topic as written.
        topic: String,
        /// The name of the token.
        token: String,
    },
}

impl Scope {
    /// Its name in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Consume => "consume",
            Self::Read => "read",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Tokens {
    /// Reads a token file.
    ///
    /// # Errors
    /// [`TokensError`]: what is wrong with the file.
    pub fn load(path: &Path) -> Result<Self, TokensError> {
        let mut text = String::new();
        regular_file::open(path)?.take(FILE_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > FILE_MAX {
            return Err(TokensError::TooLarge);
        }
        Self::parse(&text)
    }

    /// Parses the text of a token file.
    ///
    /// # Errors
    /// [`TokensError`]: what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, TokensError> {
        let written: BTreeMap<String, WrittenToken> = toml::from_str(text)?;
        if written.is_empty() {
            return Err(TokensError::Empty);
        }
        let tokens = written.into_iter().map(|(name, token)| token.check(name).map(Arc::new));
        tokens.collect::<Result<_, _>>().map(Self)
    }

    /// Whether the file contains this token with the same scopes and topics.
    pub fn have(&self, token: &Token) -> bool {
        self.0.iter().any(|known| **known == *token)
    }

    /// The token with this value. The comparison takes the same time for every value.
    pub fn find(&self, sent: &str) -> Option<Arc<Token>> {
        let hash: [u8; 32] = Sha256::digest(sent.as_bytes()).into();
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(Arc::clone(token));
            }
        }
        found
    }

    /// All tokens.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.0.iter()
    }

    /// The current version of a token, or `None` if the file no longer contains it.
    pub fn current(&self, token: &Token) -> Option<Arc<Token>> {
        self.0.iter().find(|known| bool::from(known.hash.ct_eq(&token.hash))).cloned()
    }
}

impl WrittenToken {
    fn check(self, name: String) -> Result<Token, TokensError> {
        let is_name =
            !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_graphic());
        if !is_name {
            return Err(TokensError::Name(name));
        }
        let Some(hash) = hash_of_hex(&self.sha256) else { return Err(TokensError::Hash(name)) };
        if self.scopes.is_empty() {
            return Err(TokensError::NoScopes(name));
        }
        if self.topics.is_empty() {
            return Err(TokensError::NoTopics(name));
        }
        let topics = self.topics.iter().map(|text| TopicRange::read(text, &name));
        Ok(Token { hash, scopes: self.scopes, topics: topics.collect::<Result<_, _>>()?, name })
    }
}

impl TopicRange {
    fn read(text: &str, token: &str) -> Result<Self, TokensError> {
        let (start, is_prefix) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_good = start.chars().all(allowed) && (is_prefix || !start.is_empty());
        if !is_good {
            return Err(TokensError::Topic { topic: text.to_owned(), token: token.to_owned() });
        }
        Ok(Self { start: start.to_owned(), is_prefix })
    }

    fn covers(&self, topic: &TopicName) -> bool {
        let name = topic.as_str();
        if self.is_prefix { name.starts_with(&self.start) } else { name == self.start }
    }
}

impl Token {
    /// Its scopes, in the order of the file.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// Its topics: names, and prefixes with a final `*`.
    pub fn topics(&self) -> Vec<String> {
        let written = |range: &TopicRange| {
            let end = if range.is_prefix { "*" } else { "" };
            format!("{}{end}", range.start)
        };
        self.topics.iter().map(written).collect()
    }

    /// Whether it allows the operations of a scope.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether it allows this topic.
    pub fn covers(&self, topic: &TopicName) -> bool {
        self.topics.iter().any(|range| range.covers(topic))
    }
}

/// Generates a token and its SHA-256 for the token file.
///
/// # Errors
/// If the system provides no random bytes.
pub fn make() -> std::io::Result<(String, String)> {
    let token = format!("{PREFIX}{}", random()?);
    let hash = Sha256::digest(token.as_bytes());
    Ok((token, HEXLOWER.encode(&hash)))
}

/// 256 random bits, encoded as letters, digits, `-` and `_`.
///
/// # Errors
/// If the system provides no random bytes.
pub fn random() -> std::io::Result<String> {
    let mut bytes = [0; RANDOM];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

fn hash_of_hex(hex: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, hash: &str, rest: &str) -> String {
        format!("[{name}]\nsha256 = \"{hash}\"\n{rest}")
    }

    const REST: &str = "scopes = [\"push\"]\ntopics = [\"order.*\", \"mail\"]\n";

    #[test]
    fn a_token_is_found_only_by_its_value() {
        let (token, hash) = make().unwrap();
        assert_eq!((token.len(), hash.len()), (PREFIX.len() + 43, 64));
        assert_ne!(make().unwrap().0, token);
        let tokens = Tokens::parse(&file("shop", &hash, REST)).unwrap();
        let found = tokens.find(&token).unwrap();
        assert_eq!(found.name, "shop");
        assert!(found.has(Scope::Push));
        for other in [Scope::Consume, Scope::Read, Scope::Metrics, Scope::Admin] {
            assert!(!found.has(other), "{other}");
        }
        let covers = |name: &str| found.covers(&TopicName::new(name).unwrap());
        assert!(covers("order.close") && covers("mail") && !covers("mailer") && !covers("order"));
        assert!(tokens.find("").is_none() && tokens.find(&hash).is_none());
    }

    #[test]
    fn admin_includes_every_scope() {
        let rest = "scopes = [\"admin\"]\ntopics = [\"*\"]\n";
        let (token, hash) = make().unwrap();
        let found = Tokens::parse(&file("boss", &hash, rest)).unwrap().find(&token).unwrap();
        assert!(found.has(Scope::Push) && found.has(Scope::Consume));
        assert!(found.covers(&TopicName::new("any").unwrap()));
    }

    #[test]
    fn invalid_tokens_are_refused_by_name() {
        let hash = "0".repeat(64);
        for (text, why) in [
            (String::new(), "no token"),
            (file("a", "12", REST), "64 hex digits"),
            (file("a", &"é".repeat(32), REST), "64 hex digits"),
            (file("a", &hash, "scopes = []\ntopics = [\"*\"]"), "no scopes"),
            (file("a", &hash, "scopes = [\"push\"]\ntopics = []"), "no topics"),
            (file("a", &hash, "scopes = [\"fly\"]\ntopics = [\"*\"]"), "fly"),
            (file("a", &hash, "scopes = [\"push\"]\ntopics = [\"a*b\"]"), "neither a topic"),
            (file("a", &hash, &format!("{REST}speed = 1")), "speed"),
            (file("\"a b\"", &hash, REST), "not a token name"),
        ] {
            let error = Tokens::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
