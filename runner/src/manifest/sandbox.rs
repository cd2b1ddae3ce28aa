//! `[topics.NAME.sandbox]`: the limits and the grants of a handler.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;

use duebox_sandbox::{Grants, HttpGrant, Limits, Origin};
use ipnet::IpNet;
use toml::Spanned;

use super::directory::{DIRS_MAX, read_dirs};
use super::json::read_as_text;
use super::keys::SANDBOX;
use super::network::{read_networks, read_origins};
use super::pattern::NameOrPattern;
use super::reader::{ManifestReader, Value};
use super::secret::{self, ResolvedSecret, SecretSource, read_secret};
use super::section::Section;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The largest integer of TOML; no job burns as much fuel within the longest `ttr`.
const FUEL_MAX: u64 = i64::MAX.unsigned_abs();
/// The most secrets of one handler; each is read at every reload.
const SECRETS_MAX: usize = 100;
/// The longest name in `env`, `config` and `secrets`, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A key of a table, with its place.
type Key<'t> = Spanned<Cow<'t, str>>;

/// The keys of `sandbox` that the table sets.
#[derive(Default, Clone)]
pub(super) struct SandboxTable {
    memory: Option<usize>,
    payload: Option<usize>,
    module: Option<usize>,
    log: Option<usize>,
    tables: Option<u32>,
    fuel: Option<u64>,
    env: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
    secrets: BTreeMap<String, ResolvedSecret>,
    push: Option<Vec<String>>,
    http: Option<Vec<Origin>>,
    http_private: Option<Vec<IpNet>>,
    http_body: Option<usize>,
    kv: Option<bool>,
    dirs: BTreeMap<String, PathBuf>,
}

impl SandboxTable {
    /// Reads the `sandbox` of a topic or of the defaults.
    pub(super) fn read(topic: &Section<'_>) -> Self {
        let section = topic.section("sandbox", &SANDBOX);
        Self {
            memory: section.size("memory", 64 * KIB..=4 * GIB),
            payload: section.size("payload", 1..=64 * MIB),
            module: section.size("module", 1..=256 * MIB),
            log: section.size("log", 0..=16 * MIB),
            tables: section.integer("tables", 0..=10_000_000),
            fuel: section.integer_u64("fuel", 0..=FUEL_MAX),
            env: read_named(&section, "env", read_env),
            config: read_named(&section, "config", |reader, name, value| {
                read_as_text(reader, name.get_ref(), value)
            }),
            secrets: read_named(&section, "secrets", read_secret),
            push: read_push(&section),
            http: read_origins(&section),
            http_private: read_networks(&section),
            http_body: section.size("http_body", 1..=64 * MIB),
            kv: section.boolean("kv"),
            dirs: read_dirs(&section),
        }
    }

    /// The limits: these settings, else those of `[defaults]`, else the built-in ones.
    pub(super) fn limits_over(&self, defaults: &Self) -> Limits {
        let base = Limits::default();
        Limits {
            memory: self.memory.or(defaults.memory).unwrap_or(base.memory),
            payload: self.payload.or(defaults.payload).unwrap_or(base.payload),
            module: self.module.or(defaults.module).unwrap_or(base.module),
            log: self.log.or(defaults.log).unwrap_or(base.log),
            tables: self.tables.or(defaults.tables).unwrap_or(base.tables),
            fuel: self.fuel.or(defaults.fuel).map_or(base.fuel, NonZeroU64::new),
            instances: base.instances,
        }
    }

    /// The grants: these settings, else those of `[defaults]`. Tables are merged by entry.
    pub(super) fn grants_over(&self, defaults: &Self) -> Grants {
        let mut config = merged(&self.config, &defaults.config);
        config.extend(secret::values(&merged(&self.secrets, &defaults.secrets)));
        Grants {
            config,
            env: merged(&self.env, &defaults.env),
            push: self.push.clone().or_else(|| defaults.push.clone()),
            http: self.http_over(defaults),
            kv: self.kv.or(defaults.kv).unwrap_or(false),
            dirs: merged(&self.dirs, &defaults.dirs),
        }
    }

    fn http_over(&self, defaults: &Self) -> Option<HttpGrant> {
        let allow = self.http.clone().or_else(|| defaults.http.clone())?;
        let private = self.http_private.clone().or_else(|| defaults.http_private.clone());
        let base = HttpGrant::default();
        Some(HttpGrant {
            allow,
            private: private.unwrap_or(base.private),
            body_max: self.http_body.or(defaults.http_body).unwrap_or(base.body_max),
        })
    }

    /// The sources of the secrets, merged with those of `[defaults]`.
    pub(super) fn secrets_over(&self, defaults: &Self) -> BTreeMap<String, SecretSource> {
        let secrets = merged(&self.secrets, &defaults.secrets).into_iter();
        secrets.map(|(name, secret)| (name, secret.source)).collect()
    }

    /// Reports contradictions between these settings, merged with `[defaults]`. `topic` is their table.
    pub(super) fn refuse_contradictions(&self, topic: &Section<'_>, defaults: &Self) {
        let reader = topic.reader();
        let config = merged(&self.config, &defaults.config);
        let secrets = merged(&self.secrets, &defaults.secrets);
        let is_own =
            |name: &String| self.config.contains_key(name) || self.secrets.contains_key(name);
        for name in secrets.keys().filter(|name| config.contains_key(*name) && is_own(name)) {
            let at = span_of(topic, "secrets", name).or_else(|| span_of(topic, "config", name));
            let title = format!("`{name}` is set in both `config` and `secrets`");
            reader.refuse(at, title, "keep one of the two; a handler reads both with config_read");
        }
        let dirs = merged(&self.dirs, &defaults.dirs).len();
        for (key, own, count, max) in [
            ("secrets", self.secrets.len(), secrets.len(), SECRETS_MAX),
            ("dirs", self.dirs.len(), dirs, DIRS_MAX),
        ] {
            if own > 0 && count > max {
                let title = format!("`{key}` has {count} entries; at most {max} are allowed");
                let hint = "remove some; the entries of [defaults] count too";
                reader.refuse(span_of_key(topic, key), title, hint);
            }
        }
    }

    /// Whether calls to private addresses are granted.
    pub(super) fn opens_private(&self) -> bool {
        self.http_private.as_ref().is_some_and(|private| !private.is_empty())
    }
}

/// Reports `http_private` without `http`.
pub(super) fn refuse_private(topic: &Section<'_>, title: &str) {
    let hint = "add http = [\"http://service.internal:8080\"], or remove `http_private`";
    topic.reader().refuse(span_of_key(topic, "http_private"), title.to_owned(), hint);
}

/// The byte range of a key of the topic's sandbox.
fn span_of_key(topic: &Section<'_>, key: &str) -> Option<Range<usize>> {
    topic.table("sandbox")?.get_key_value(key).map(|(key, _)| key.span())
}

/// The byte range of a name in one of the sandbox's tables.
fn span_of(topic: &Section<'_>, table: &str, name: &str) -> Option<Range<usize>> {
    let entries = topic.table("sandbox")?.get(table)?.get_ref().as_table()?;
    entries.get_key_value(name).map(|(name, _)| name.span())
}

/// Reads `push`, the names and patterns of topics that a handler may push to, and reports every invalid one.
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

/// Reads a table of named values, each with `read`, and reports every invalid one.
fn read_named<'t, T>(
    section: &Section<'t>,
    key: &str,
    read: fn(&'t ManifestReader<'t>, &Key<'t>, &'t Value<'t>) -> Option<T>,
) -> BTreeMap<String, T> {
    let reader = section.reader();
    let read_entry = |(name, value): (&'t Key<'t>, &'t Value<'t>)| {
        let text = name.get_ref().as_ref();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(['=', '\0']) {
            let title = format!("`{key}`: {text:?} is not a valid name");
            let hint = "choose a name of 1 to 256 bytes without '=' or NUL";
            reader.refuse(Some(name.span()), title, hint);
            return None;
        }
        Some((text.to_owned(), read(reader, name, value)?))
    };
    section.table(key).into_iter().flatten().filter_map(read_entry).collect()
}

/// The entries of both tables; those of `own` take precedence.
fn merged<T: Clone>(
    own: &BTreeMap<String, T>,
    defaults: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let mut all = defaults.clone();
    all.extend(own.clone());
    all
}

/// The value of an environment variable: a string without NUL.
fn read_env(reader: &ManifestReader<'_>, name: &Key<'_>, value: &Value<'_>) -> Option<String> {
    let name = name.get_ref();
    let text = reader.text(name, value)?;
    if text.contains('\0') {
        let title = format!("`{name}` contains a NUL byte");
        reader.refuse(Some(value.span()), title, "remove the NUL byte");
        return None;
    }
    Some(text)
}
