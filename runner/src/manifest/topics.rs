//! `[topics]`: reads every table, separates names from patterns, and checks each topic together with
//! `[defaults]`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use duebox_job::TopicName;
use toml::Spanned;

use super::case::check_smoke;
use super::keys::TOPIC;
use super::pattern::{NameOrPattern, TopicPattern};
use super::patterns::Patterns;
use super::reader::{ManifestReader, Value};
use super::rollout::read_canary;
use super::sandbox::{SandboxTable, refuse_private};
use super::section::{Section, read_pin};
use super::topic::Topic;
use super::topic_table::{RecordPolicy, TopicTable};

type Key<'t> = Spanned<Cow<'t, str>>;

/// The topics of a manifest.
#[derive(Default)]
pub(super) struct Topics {
    pub(super) named: BTreeMap<TopicName, Topic>,
    pub(super) patterns: Patterns,
}

impl Topics {
    /// Reads every topic and merges it with `[defaults]`.
    pub(super) fn read(root: &Section<'_>, defaults: &Section<'_>) -> Self {
        let reader = root.reader();
        let shared = TopicTable::read(defaults);
        let mut named = BTreeMap::new();
        let mut patterns: Vec<(TopicPattern, Topic)> = Vec::new();
        shared.sandbox.refuse_contradictions(defaults, &SandboxTable::default());
        let (mut rated, mut connected) = (false, false);
        for (key, value) in root.table("topics").into_iter().flatten() {
            let name = read_name(reader, key);
            let Some(topic) = read_topic(reader, key, value, &shared) else { continue };
            rated |= topic.starts.rate.is_some();
            connected |= topic.grants.http.is_some();
            match name {
                Some(NameOrPattern::Name(name)) => drop(named.insert(name, topic)),
                Some(NameOrPattern::Pattern(pattern)) => patterns.push((pattern, topic)),
                None => {}
            }
        }
        if shared.burst.is_some_and(|burst| burst > 0) && !rated {
            refuse_burst(defaults, "[defaults] has `burst`, but no topic has `rate`");
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

/// The settings of a topic or shard: those of its own table, or of the pattern with the longest prefix.
pub(super) fn find<'t>(
    named: &'t BTreeMap<TopicName, Topic>,
    patterns: &'t Patterns,
    name: &TopicName,
) -> Option<&'t Topic> {
    named.get(name).or_else(|| patterns.find(name).map(|(_, topic)| topic))
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
    defaults: &TopicTable,
) -> Option<Topic> {
    let name = key.get_ref();
    let section = Section::open(reader, reader.table(name, value, Some(key.span()))?, &TOPIC);
    let table = TopicTable::read(&section);
    let canary = read_canary(&section);
    let pin = read_pin(&section);
    let tests = section.value("tests").and_then(|_| read_tests(&section)).unwrap_or_default();
    if section.value("handler").is_none() {
        refuse_without_handler(&section, name, pin.is_some());
    }
    table.sandbox.refuse_contradictions(&section, &defaults.sandbox);
    let has_private = table.sandbox.opens_private();
    let has_burst = table.burst.is_some_and(|burst| burst > 0);
    let topic = Topic {
        sha256: pin,
        canary,
        tests,
        ..Topic::new(section.path("handler"), table, defaults)
    };
    check_smoke(&section, &topic.smoke, topic.limits.payload);
    refuse_record(&section, &topic, name);
    if has_burst && topic.starts.rate.is_none() {
        refuse_burst(&section, &format!("topic `{name}` has `burst`, but no `rate`"));
    }
    if has_private && topic.grants.http.is_none() && section.value("handler").is_some() {
        refuse_private(&section, &format!("topic `{name}` has `http_private`, but no `http`"));
    }
    Some(topic)
}

/// Refuses the keys that have no meaning for a topic without a handler.
fn refuse_without_handler(section: &Section<'_>, name: &str, has_pin: bool) {
    let is_set = |key| section.value(key).is_some();
    for (key, is_set) in [
        ("sandbox", is_set("sandbox")),
        ("smoke", is_set("smoke")),
        ("tests", is_set("tests")),
        ("record", is_set("record")),
        ("canary", is_set("canary")),
        ("sha256", has_pin),
    ] {
        if is_set {
            section.reader().refuse(
                section.key_at(key),
                format!("topic `{name}` has `{key}`, but no `handler`"),
                format!("add handler = \"path/to/module.wasm\", or remove `{key}`"),
            );
        }
    }
}

/// Refuses to record warm instances: their attempts also read what earlier jobs left in memory.
fn refuse_record(section: &Section<'_>, topic: &Topic, name: &str) {
    if topic.record == RecordPolicy::Off || topic.limits.instances.jobs_each <= 1 {
        return;
    }
    let at = section.key_at("record").or_else(|| section.key_at("isolation"));
    let title = format!("topic `{name}` has `record` and warm instances");
    let hint = "set isolation = \"job\" or record = \"off\": an attempt on a warm instance depends on earlier jobs";
    section.reader().refuse(at, title, hint);
}

/// The files of cases.
fn read_tests(section: &Section<'_>) -> Option<Vec<PathBuf>> {
    let files = section.list("tests")?.iter();
    let files = files.map(|file| section.reader().path("tests", file));
    files.collect::<Vec<_>>().into_iter().collect()
}

/// Refuses a burst without a rate, which would have no effect.
fn refuse_burst(section: &Section<'_>, title: &str) {
    if section.value("rate").is_some_and(|rate| rate.get_ref().as_str() != Some("")) {
        return; // The rate itself was refused.
    }
    let hint = "add rate = \"100/s\", or remove `burst`";
    section.reader().refuse(section.key_at("burst"), title.to_owned(), hint);
}
