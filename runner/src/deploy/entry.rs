//! The manifest's entries that serve topics: a named topic, or a pattern for many topics. The topics of a
//! pattern share one module, which is compiled once.

use std::fmt;

use duebox_job::TopicName;

use crate::manifest::{Manifest, Topic};

/// An entry under `[topics]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntryName {
    /// A named topic.
    Topic(TopicName),
    /// A pattern, as it is written.
    Pattern(String),
}

impl fmt::Display for EntryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => name.fmt(f),
            Self::Pattern(pattern) => f.write_str(pattern),
        }
    }
}

/// All entries of a manifest.
pub(crate) fn entries(manifest: &Manifest) -> impl Iterator<Item = (EntryName, &Topic)> {
    let named = manifest.topics.iter().map(|(name, topic)| (EntryName::Topic(name.clone()), topic));
    let patterns = manifest.patterns.iter();
    named.chain(patterns.map(|(found, topic)| (EntryName::Pattern(found.to_string()), topic)))
}

/// The entry that serves a topic: its own, or the closest pattern.
pub(crate) fn entry_of<'m>(
    manifest: &'m Manifest,
    name: &TopicName,
) -> Option<(EntryName, &'m Topic)> {
    if let Some(topic) = manifest.topics.get(name) {
        return Some((EntryName::Topic(name.clone()), topic));
    }
    let (pattern, topic) = manifest.patterns.find(name)?;
    Some((EntryName::Pattern(pattern.to_string()), topic))
}
