//! Reads a table of the manifest key by key and records every problem with its place.
//!
//! A getter returns `None` for an absent key and for an invalid value. For an invalid value it has recorded
//! a problem, so the manifest will be refused.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use duebox_sandbox::Digest;
use toml::de::{DeArray, DeTable, DeValue};

use super::keys::{KeyStatus, Keys};
use super::reader::{ManifestReader, Value};

/// The longest delay, retention or backoff: ten years.
pub(super) const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// One table of the manifest whose keys were checked. An absent table has no keys.
#[derive(Clone, Copy)]
pub(super) struct Section<'t> {
    reader: &'t ManifestReader<'t>,
    entries: Option<&'t DeTable<'t>>,
}

impl<'t> Section<'t> {
    /// Opens a table and records every key that is unknown or not supported yet.
    pub(super) fn open(
        reader: &'t ManifestReader<'t>,
        entries: &'t DeTable<'t>,
        keys: &Keys,
    ) -> Self {
        for (key, value) in entries {
            let name = key.get_ref();
            match keys.status(name) {
                KeyStatus::Served => {}
                KeyStatus::Later => reader.refuse(
                    Some(key.span()),
                    format!("`{name}` in {} is not supported by this version", keys.title),
                    format!("remove `{name}`; a later version of duebox will support it"),
                ),
                KeyStatus::Unknown { hint } => {
                    let hint = dotted_topic(keys, name, value.get_ref(), hint);
                    let title = format!("unknown key `{name}` in {}", keys.title);
                    reader.refuse(Some(key.span()), title, hint);
                }
            }
        }
        Self { reader, entries: Some(entries) }
    }

    pub(super) fn reader(&self) -> &'t ManifestReader<'t> {
        self.reader
    }

    /// The table under `key` as a section; without keys if it is absent.
    pub(super) fn section(&self, key: &str, keys: &Keys) -> Self {
        match self.table(key) {
            Some(entries) => Self::open(self.reader, entries, keys),
            None => Self { reader: self.reader, entries: None },
        }
    }

    /// The table under `key`. Its keys are not checked.
    pub(super) fn table(&self, key: &str) -> Option<&'t DeTable<'t>> {
        self.reader.table(key, self.value(key)?, self.key_at(key))
    }

    /// The array under `key`. Its entries are not checked.
    pub(super) fn list(&self, key: &str) -> Option<&'t DeArray<'t>> {
        self.reader.list(key, self.value(key)?)
    }

    pub(super) fn value(&self, key: &str) -> Option<&'t Value<'t>> {
        self.entries?.get(key)
    }

    /// The byte range of the key.
    pub(super) fn key_at(&self, key: &str) -> Option<Range<usize>> {
        self.entries?.get_key_value(key).map(|(key, _)| key.span())
    }

    /// The byte range of the value.
    pub(super) fn value_at(&self, key: &str) -> Option<Range<usize>> {
        self.value(key).map(Value::span)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.reader.text(key, self.value(key)?)
    }

    pub(super) fn duration(&self, key: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.reader.duration(key, self.value(key)?, range)
    }

    pub(super) fn integer(&self, key: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        u32::try_from(self.integer_u64(key, range)?).ok()
    }

    pub(super) fn integer_u64(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        self.reader.integer(key, self.value(key)?, range)
    }

    pub(super) fn boolean(&self, key: &str) -> Option<bool> {
        self.reader.boolean(key, self.value(key)?)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.reader.number(key, self.value(key)?)
    }

    pub(super) fn size(&self, key: &str, range: RangeInclusive<u64>) -> Option<usize> {
        self.reader.size(key, self.value(key)?, range)
    }

    /// One of the given words.
    pub(super) fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.value(key)?;
        self.reader.choice(key, &self.reader.text(key, value)?, Some(value.span()), words)
    }

    /// A path. A relative one starts from the manifest's folder.
    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.reader.path(key, self.value(key)?)
    }
}

/// The hint for `[topics.order.close]` without quotes, which means a table `close` in the topic `order`. A
/// misplaced table of a topic looks the same; then the hint says both.
fn dotted_topic(keys: &Keys, name: &str, value: &DeValue<'_>, hint: String) -> String {
    if keys.title != super::keys::TOPIC.title || !value.is_table() {
        return hint;
    }
    let quotes = "write a topic name with a dot in quotes: [topics.\"order.close\"]";
    match super::keys::home(name) {
        Some(_) => format!("{hint}; or {quotes}"),
        None => quotes.to_owned(),
    }
}

/// Reads `sha256`; the empty string pins nothing.
pub(super) fn read_pin(section: &Section<'_>) -> Option<Digest> {
    let text = section.text("sha256").filter(|text| !text.is_empty())?;
    let digest = Digest::from_hex(&text);
    if digest.is_none() {
        let title = format!("`sha256` is not a SHA-256: {text:?}");
        let hint = "write the 64 hex digits that `sha256sum` prints for the module file";
        section.reader().refuse(section.value_at("sha256"), title, hint);
    }
    digest
}
