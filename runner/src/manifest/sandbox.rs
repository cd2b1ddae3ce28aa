//! `[topics.NAME.sandbox]`: what a handler may use, and what it is given.

use std::borrow::Cow;
use std::collections::BTreeMap;
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
use super::reader::ManifestReader;
use super::secret::{self, ResolvedSecret, SecretSource, read_secret};
use super::section::{Section, Value};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// More fuel than any job burns in the longest ttr, and a number that TOML can write.
const FUEL_MAX: u64 = i64::MAX.unsigned_abs();
/// Secrets of one handler; each is read at every reload.
const SECRETS_MAX: usize = 100;
/// The longest name in `env`, `config` and `secrets`, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A name in a table, with its place.
type Key<'t> = Spanned<Cow<'t, str>>;

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
    secrets: BTreeMap<String, ResolvedSecret>,
    push: Option<Vec<String>>,
    http: Option<Vec<Origin>>,
    http_private: Option<Vec<IpNet>>,
    http_body: Option<usize>,
    kv: Option<bool>,
    dirs: BTreeMap<String, PathBuf>,
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

    /// The limits: these settings laid over the defaults, and both over what the sandbox brings.
    pub(super) fn limits_over(&self, defaults: &Self) -> Limits {
        let base = Limits::default();
        Limits {
            memory: self.memory.or(defaults.memory).unwrap_or(base.memory),
            payload: self.payload.or(defaults.payload).unwrap_or(base.payload),
            module: self.module.or(defaults.module).unwrap_or(base.module),
            log: self.log.or(defaults.log).unwrap_or(base.log),
            tables: self.tables.or(defaults.tables).unwrap_or(base.tables),
            fuel: self.fuel.or(defaults.fuel).unwrap_or(base.fuel),
            instances: base.instances,
        }
    }

    /// The grants: these settings laid over the defaults.
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

    /// Where the secrets are kept: these laid over the defaults.
    pub(super) fn secrets_over(&self, defaults: &Self) -> BTreeMap<String, SecretSource> {
        let secrets = merged(&self.secrets, &defaults.secrets).into_iter();
        secrets.map(|(name, secret)| (name, secret.source)).collect()
    }

    /// Tells what does not go together in these settings laid over the defaults. `topic` is the table
    /// they stand in.
    pub(super) fn refuse_contradictions(&self, topic: &Section<'_>, defaults: &Self) {
        let reader = topic.reader();
        let config = merged(&self.config, &defaults.config);
        let secrets = merged(&self.secrets, &defaults.secrets);
        let is_own =
            |name: &String| self.config.contains_key(name) || self.secrets.contains_key(name);
        for name in secrets.keys().filter(|name| config.contains_key(*name) && is_own(name)) {
            let at = place(topic, "secrets", name).or_else(|| place(topic, "config", name));
            let title = format!("`{name}` stands under both `config` and `secrets`");
            reader.refuse(at, title, "keep one of the two: a handler reads both by one name");
        }
        let dirs = merged(&self.dirs, &defaults.dirs).len();
        for (key, own, count, max) in [
            ("secrets", self.secrets.len(), secrets.len(), SECRETS_MAX),
            ("dirs", self.dirs.len(), dirs, DIRS_MAX),
        ] {
            if own > 0 && count > max {
                let title = format!("`{key}` has {count} entries; it may have {max}");
                let hint = "give fewer; those of [defaults] count";
                reader.refuse(place_of_key(topic, key), title, hint);
            }
        }
    }

    /// Whether calls to private addresses are granted.
    pub(super) fn opens_private(&self) -> bool {
        self.http_private.as_ref().is_some_and(|private| !private.is_empty())
    }
}

/// Tells that private addresses are opened where no call is granted.
pub(super) fn refuse_private(topic: &Section<'_>, title: &str) {
    let hint = "add http = [\"http://service.internal:8080\"], or remove `http_private`";
    topic.reader().refuse(place_of_key(topic, "http_private"), title.to_owned(), hint);
}

/// Where a key of the topic's sandbox stands.
fn place_of_key(topic: &Section<'_>, key: &str) -> Option<Range<usize>> {
    topic.table("sandbox")?.get_key_value(key).map(|(key, _)| key.span())
}

/// Where a name in one of the sandbox's tables stands.
fn place(topic: &Section<'_>, table: &str, name: &str) -> Option<Range<usize>> {
    let entries = topic.table("sandbox")?.get(table)?.get_ref().as_table()?;
    entries.get_key_value(name).map(|(name, _)| name.span())
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
fn read_named<'t, T>(
    section: &Section<'t>,
    key: &str,
    read: fn(&'t ManifestReader<'t>, &Key<'t>, &'t Value<'t>) -> Option<T>,
) -> BTreeMap<String, T> {
    let reader = section.reader();
    let read_entry = |(name, value): (&'t Key<'t>, &'t Value<'t>)| {
        let text = name.get_ref().as_ref();
        if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(['=', '\0']) {
            let title = format!("{text:?} is no name in `{key}`");
            let hint = "choose a name of 1 to 256 bytes without '=' and NUL";
            reader.refuse(Some(name.span()), title, hint);
            return None;
        }
        Some((text.to_owned(), read(reader, name, value)?))
    };
    section.table(key).into_iter().flatten().filter_map(read_entry).collect()
}

/// The entries of one table laid over those of another.
fn merged<T: Clone>(
    own: &BTreeMap<String, T>,
    defaults: &BTreeMap<String, T>,
) -> BTreeMap<String, T> {
    let mut all = defaults.clone();
    all.extend(own.clone());
    all
}

/// An environment variable: a text without NUL.
fn read_env(reader: &ManifestReader<'_>, name: &Key<'_>, value: &Value<'_>) -> Option<String> {
    let name = name.get_ref();
    let text = reader.text(name, value)?;
    if text.contains('\0') {
        let title = format!("`{name}` holds a NUL byte, which ends a variable");
        reader.refuse(Some(value.span()), title, "remove the NUL byte");
        return None;
    }
    Some(text)
}
