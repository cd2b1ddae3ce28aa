//! Configuration values of the topic (`sandbox.config`, `sandbox.secrets`) as Rust types.

use std::fmt::Display;
use std::str::FromStr;

/// A configuration value that exists but is not what the handler expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The name in the topic's `sandbox.config`.
    pub name: String,
    /// What is wrong with the value. It does not quote the value, which may be a secret.
    pub why: String,
}

impl ConfigError {
    pub(crate) fn new(name: &str, why: impl Display) -> Self {
        Self { name: name.to_owned(), why: why.to_string() }
    }
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the configuration value {:?} cannot be used: {}", self.name, self.why)
    }
}

impl std::error::Error for ConfigError {}

/// Parses a value as a type; `None` stays `None`.
pub(crate) fn parse<T>(name: &str, value: Option<String>) -> Result<Option<T>, ConfigError>
where
    T: FromStr<Err: Display>,
{
    let parsed = value.map(|text| text.parse().map_err(|why| ConfigError::new(name, why)));
    parsed.transpose()
}
