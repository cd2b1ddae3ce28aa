//! `[topics]` as a whole: every table read, named topics told from patterns, and what holds only of a
//! topic and the defaults together checked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use duebox_job::TopicName;
use toml::Spanned;

use super::keys::TOPIC;
use super::pattern::{NameOrPattern, Patterns, TopicPattern};
use super::reader::ManifestReader;
use super::rollout::read_canary;
use super::sandbox::{SandboxSettings, refuse_private};
use super::section::{Section, Value};
use super::smoke::check_smoke;
use super::topic::{Topic, TopicSettings, read_pin};

type Key<'t> = Spanned<Cow<'t, str>>;

/// What `[topics]` says.
#[derive(Default)]
pub(super) struct Topics {
    pub(super) named: BTreeMap<TopicName, Topic>,
    pub(super) patterns: Patterns,
}

impl Topics {
    /// Reads every topic under `[topics]` of the manifest, and lays it over `[defaults]`.
    pub(super) fn read(root: &Section<'_>, defaults: &Section<'_>) -> Self {
        let reader = root.reader();
        let shared = TopicSettings::read(defaults);
        let mut named = BTreeMap::new();
        let mut patterns: Vec<(TopicPattern, Topic)> = Vec::new();
        shared.sandbox.refuse_contradictions(defaults, &SandboxSettings::default());
        let (mut rated, mut connected) = (false, false);
        for (key, value) in root.table("topics").into_iter().flatten() {
            let name = read_name(reader, key);
            let Some(topic) = read_topic(reader, key, value, &shared) else { continue };
            rated |= topic.rate.is_some();
            connected |= topic.grants.http.is_some();
            match name {
                Some(NameOrPattern::Name(name)) => drop(named.insert(name, topic)),
                Some(NameOrPattern::Pattern(pattern)) => patterns.push((pattern, topic)),
                None => {}
            }
        }
        if shared.burst.is_some_and(|burst| burst > 0) && !rated {
            refuse_burst(defaults, "[defaults] has a burst, but no topic has a rate");
        }
        if shared.sandbox.opens_private() && !connected {
            refuse_private(defaults, "[defaults] has `http_private`, but no topic has `http`");
        }
        Self { named, patterns: Patterns::new(patterns) }
    }

    pub(super) fn find(&self, name: &TopicName) -> Option<&Topic> {
        find(&self.named, &self.patterns, name)
    }
}

/// What is said of the topic of that name, or of the topic of that shard: its own table, or the closest
/// pattern.
pub(super) fn find<'t>(
    named: &'t BTreeMap<TopicName, Topic>,
    patterns: &'t Patterns,
    name: &TopicName,
) -> Option<&'t Topic> {
    named.get(&name.base()).or_else(|| patterns.find(name).map(|(_, topic)| topic))
}

fn read_name(reader: &ManifestReader<'_>, key: &Key<'_>) -> Option<NameOrPattern> {
    match NameOrPattern::parse(key.get_ref()) {
        Ok(name) => Some(name),
        Err(error) => {
            reader.refuse(Some(key.span()), error.to_string(), error.hint());
            None
        }
    }
}

fn read_topic<'t>(
    reader: &'t ManifestReader<'t>,
    key: &Key<'_>,
    value: &'t Value<'t>,
    defaults: &TopicSettings,
) -> Option<Topic> {
    let name = key.get_ref();
    let section = Section::open(reader, reader.table(name, value, Some(key.span()))?, &TOPIC);
    let settings = TopicSettings::read(&section);
    if section.value("handler").is_none() && section.value("sandbox").is_some() {
        reader.refuse(
            section.key_at("sandbox"),
            format!("topic `{name}` has a sandbox, but no handler to run in it"),
            "add handler = \"path/to/module.wasm\", or remove `sandbox`: a topic without a handler is served to pull consumers",
        );
    }
    if section.value("handler").is_none() && section.value("smoke").is_some() {
        reader.refuse(
            section.key_at("smoke"),
            format!("topic `{name}` has smoke cases, but no handler to pass them"),
            "add handler = \"path/to/module.wasm\", or remove `smoke`",
        );
    }
    if section.value("handler").is_none() && section.value("canary").is_some() {
        reader.refuse(
            section.key_at("canary"),
            format!("topic `{name}` has a canary, but no handler that runs the other jobs"),
            "add handler = \"path/to/module.wasm\", or remove `canary`",
        );
    }
    let canary = read_canary(&section);
    let pin = read_pin(&section);
    if section.value("handler").is_none() && pin.is_some() {
        reader.refuse(
            section.key_at("sha256"),
            format!("topic `{name}` pins a module, but has no handler"),
            "add handler = \"path/to/module.wasm\", or remove `sha256`",
        );
    }
    settings.sandbox.refuse_contradictions(&section, &defaults.sandbox);
    let has_private = settings.sandbox.opens_private();
    let has_burst = settings.burst.is_some_and(|burst| burst > 0);
    let topic =
        Topic { sha256: pin, canary, ..Topic::new(section.path("handler"), settings, defaults) };
    check_smoke(&section, &topic.smoke, topic.limits.payload);
    if has_burst && topic.rate.is_none() {
        refuse_burst(&section, &format!("topic `{name}` has a burst, but no rate"));
    }
    if has_private && topic.grants.http.is_none() && section.value("handler").is_some() {
        refuse_private(&section, &format!("topic `{name}` has `http_private`, but no `http`"));
    }
    Some(topic)
}

/// A burst says how many jobs of a rate may start at once: without a rate it says nothing.
fn refuse_burst(section: &Section<'_>, title: &str) {
    if section.value("rate").is_some_and(|rate| rate.get_ref().as_str() != Some("")) {
        return; // The rate itself was refused.
    }
    let hint = "add rate = \"100/s\", or remove `burst`";
    section.reader().refuse(section.key_at("burst"), title.to_owned(), hint);
}
