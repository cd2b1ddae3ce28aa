//! `[topics.NAME.sandbox]`: what a handler may use, and what it is given.

use std::borrow::Cow;
use std::collections::BTreeMap;

use duebox_sandbox::{Grants, Limits};
use toml::Spanned;

use super::json::read_as_text;
use super::keys::SANDBOX;
use super::pattern::NameOrPattern;
use super::reader::Reader;
use super::section::{Section, Value};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// More fuel than any job burns in the longest ttr, and a number that TOML can write.
const FUEL_MAX: u64 = i64::MAX.unsigned_abs();
/// The longest name in `env` and `config`, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The keys of a sandbox, as far as they are written.
#[derive(Default, Clone)]
pub(super) struct SandboxSettings {
    memory: Option<usize>,
    payload: Option<usize>,
    module: Option<usize>,
    log: Option<usize>,
    tables: Option<u32>,
    fuel: Option<u64>,
    env: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
    push: Option<Vec<String>>,
}

impl SandboxSettings {
    /// Reads the `sandbox` of a topic or of the defaults.
    pub(super) fn read(topic: &Section<'_>) -> Self {
        let section = topic.section("sandbox", &SANDBOX);
        Self {
            memory: section.size("memory", 64 * KIB..=4 * GIB),
            payload: section.size("payload", 1..=64 * MIB),
            module: section.size("module", 1..=256 * MIB),
            log: section.size("log", 0..=16 * MIB),
            tables: section.whole("tables", 0..=10_000_000),
            fuel: section.large("fuel", 0..=FUEL_MAX),
            env: read_named(&section, "env", read_env),
            config: read_named(&section, "config", read_as_text),
            push: read_push(&section),
        }
    }

    /// Lays these settings over the defaults, and both over what the sandbox brings.
    pub(super) fn over(&self, defaults: &Self) -> (Limits, Grants) {
        let base = Limits::default();
        let limits = Limits {
            memory: self.memory.or(defaults.memory).unwrap_or(base.memory),
            payload: self.payload.or(defaults.payload).unwrap_or(base.payload),
            module: self.module.or(defaults.module).unwrap_or(base.module),
            log: self.log.or(defaults.log).unwrap_or(base.log),
            tables: self.tables.or(defaults.tables).unwrap_or(base.tables),
            fuel: self.fuel.or(defaults.fuel).unwrap_or(base.fuel),
            instances: base.instances,
        };
        let merge = |own: &BTreeMap<String, String>, defaults: &BTreeMap<String, String>| {
            let mut all = defaults.clone();
            all.extend(own.clone());
            all
        };
        let grants = Grants {
            env: merge(&self.env, &defaults.env),
            config: merge(&self.config, &defaults.config),
            push: self.push.clone().or_else(|| defaults.push.clone()),
            ..Grants::default()
        };
        (limits, grants)
    }
}

/// Reads `push`: the topics a handler may push to, each a name or a pattern; every bad one is told.
fn read_push(section: &Section<'_>) -> Option<Vec<String>> {
    let reader = section.reader();
    let entries = section.list("push")?.iter().map(|entry| {
        let text = reader.text("push", entry)?;
        if let Err(error) = NameOrPattern::parse(&text) {
            reader.refuse(Some(entry.span()), format!("`push`: {error}"), error.hint());
            return None;
        }
        Some(text)
    });
    entries.collect::<Vec<_>>().into_iter().collect()
}

/// Reads a table of named values, each with `read`; every bad one is told.
fn read_named(
    section: &Section<'_>,
    key: &str,
    read: fn(&Reader<'_>, &str, &Value<'_>) -> Option<String>,
) -> BTreeMap<String, String> {
    let reader = section.reader();
    let read_entry = |(name, value): (&Spanned<Cow<'_, str>>, &Value<'_>)| {
        let text = name.get_ref().as_ref();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(['=', '\0']) {
            let title = format!("{text:?} is no name in `{key}`");
            let hint = "choose a name of 1 to 256 bytes without '=' and NUL";
            reader.refuse(Some(name.span()), title, hint);
            return None;
        }
        Some((text.to_owned(), read(reader, text, value)?))
    };
    section.table(key).into_iter().flatten().filter_map(read_entry).collect()
}

/// An environment variable: a text without NUL.
fn read_env(reader: &Reader<'_>, name: &str, value: &Value<'_>) -> Option<String> {
    let text = reader.text(name, value)?;
    if text.contains('\0') {
        let title = format!("`{name}` holds a NUL byte, which ends a variable");
        reader.refuse(Some(value.span()), title, "remove the NUL byte");
        return None;
    }
    Some(text)
}
