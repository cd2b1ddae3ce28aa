//! `[topics.NAME]` and `[defaults]`: how the jobs of a topic are run.
//!
//! Both tables are read into [`Settings`], where each key may be absent. A topic's own keys stand
//! over the defaults, key by key (also inside `on` and `sandbox`), and what neither sets has the
//! value of the reference. So a [`Topic`] has no absent value left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use duebox_job::{ATTEMPTS_MAX, Backoff, FailureClass, Policy, TopicName};
use duebox_queue::IfExists;
use duebox_sandbox::{Grants, Limits};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::keys::{BACKOFF, TOPIC, nearest};
use super::reader::Reader;
use super::sandbox::SandboxSettings;
use super::section::{Section, Value};

/// The longest delay, retention or backoff: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);
const MAX_ATTEMPTS: u32 = 8;

/// How the jobs of one topic are run.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// The module's file.
    pub handler: PathBuf,
    /// Jobs of this topic that this process runs at once; 1 to 10,000.
    pub concurrency: u32,
    /// The delay of a push that names none; 0 to ten years.
    pub delay: Duration,
    /// Wall clock of one attempt, from its real start; 1 ms to 24 h.
    pub ttr: Duration,
    /// Attempts a job has in all; 1 to 999,999.
    pub max_attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// Runs that may end with the runner's death; 1 to 1,000.
    pub max_crashes: u32,
    /// What is done about each class of failure; every class is in it.
    pub on: BTreeMap<FailureClass, Policy>,
    /// How long dead jobs are kept; 0 to ten years.
    pub retention: Duration,
    /// How many dead jobs are kept; 0 to 100,000,000.
    pub max_dead: u64,
    /// What a push does about an id that is alive.
    pub if_exists: IfExists,
    /// What the sandbox allows a handler to use.
    pub limits: Limits,
    /// What the sandbox gives a handler.
    pub grants: Grants,
}

/// The keys of a topic or of `[defaults]`, as far as they are written.
#[derive(Default, Clone)]
pub(super) struct Settings {
    concurrency: Option<u32>,
    delay: Option<Duration>,
    ttr: Option<Duration>,
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    max_crashes: Option<u32>,
    on: BTreeMap<FailureClass, Policy>,
    retention: Option<Duration>,
    max_dead: Option<u64>,
    if_exists: Option<IfExists>,
    sandbox: SandboxSettings,
}

/// A topic as it is written.
pub(super) struct WrittenTopic {
    pub(super) name: TopicName,
    pub(super) handler: PathBuf,
    pub(super) settings: Settings,
}

impl Topic {
    /// Lays a topic's settings over the defaults.
    ///
    /// A list of backoffs sets the attempts unless a number stands beside it or closer to the topic.
    pub(super) fn new(handler: PathBuf, own: Settings, defaults: &Settings) -> Self {
        let listed = |settings: &Settings| match &settings.backoff {
            Some(Backoff::Schedule(waits)) => u32::try_from(waits.len() + 1).ok(),
            _ => None,
        };
        let attempts = |settings: &Settings| settings.max_attempts.or_else(|| listed(settings));
        let policy = |class: FailureClass| {
            let written = own.on.get(&class).or_else(|| defaults.on.get(&class));
            (class, written.copied().unwrap_or_else(|| class.default_policy()))
        };
        let (limits, grants) = own.sandbox.over(&defaults.sandbox);
        Self {
            handler,
            concurrency: own.concurrency.or(defaults.concurrency).unwrap_or(64),
            delay: own.delay.or(defaults.delay).unwrap_or(Duration::ZERO),
            ttr: own.ttr.or(defaults.ttr).unwrap_or(Duration::from_secs(30)),
            max_attempts: attempts(&own).or_else(|| attempts(defaults)).unwrap_or(MAX_ATTEMPTS),
            max_crashes: own.max_crashes.or(defaults.max_crashes).unwrap_or(3),
            on: FailureClass::ALL.into_iter().map(policy).collect(),
            retention: own
                .retention
                .or(defaults.retention)
                .unwrap_or(Duration::from_secs(7 * 86_400)),
            max_dead: own.max_dead.or(defaults.max_dead).unwrap_or(100_000),
            if_exists: own.if_exists.or(defaults.if_exists).unwrap_or(IfExists::Reject),
            backoff: own.backoff.or_else(|| defaults.backoff.clone()).unwrap_or_default(),
            limits,
            grants,
        }
    }
}

impl Settings {
    /// Reads the keys that a topic and the defaults share.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let if_exists = [
            ("reject", IfExists::Reject),
            ("keep", IfExists::Keep),
            ("replace", IfExists::Replace),
        ];
        Self {
            concurrency: section.whole("concurrency", 1..=10_000),
            delay: section.duration("delay", Duration::ZERO..=LONGEST),
            ttr: section.duration("ttr", Duration::from_millis(1)..=Duration::from_secs(24 * 3600)),
            max_attempts: section.whole("max_attempts", 1..=ATTEMPTS_MAX),
            backoff: read_backoff(section),
            max_crashes: section.whole("max_crashes", 1..=1_000),
            on: read_policies(section),
            retention: section.duration("retention", Duration::ZERO..=LONGEST),
            max_dead: section.large("max_dead", 0..=100_000_000),
            if_exists: section.choice("if_exists", &if_exists),
            sandbox: SandboxSettings::read(section),
        }
    }
}

impl WrittenTopic {
    /// Reads every topic under `[topics]`.
    pub(super) fn read_all<'t>(reader: &'t Reader<'t>, topics: &'t DeTable<'t>) -> Vec<Self> {
        let read = |(key, value): (&Spanned<_>, &'t Value<'t>)| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            let name = read_name(reader, key);
            let table = reader.table(key.get_ref(), value, Some(key.span()))?;
            let section = Section::open(reader, table, &TOPIC);
            let settings = Settings::read(&section);
            if section.value("handler").is_none() {
                reader.refuse(
                    Some(key.span()),
                    format!(
                        "topic `{}` has no handler; topics for pull consumers are not supported by this version",
                        key.get_ref()
                    ),
                    "add handler = \"path/to/module.wasm\"",
                );
            }
            Some(Self { name: name?, handler: section.path("handler")?, settings })
        };
        topics.iter().filter_map(read).collect()
    }
}

fn read_name(reader: &Reader<'_>, key: &Spanned<std::borrow::Cow<'_, str>>) -> Option<TopicName> {
    let name = key.get_ref();
    if name.contains(['*', '?', '[']) {
        let title = format!("`{name}`: patterns of topics are not supported by this version");
        reader.refuse(Some(key.span()), title, "name each topic in a table of its own");
        return None;
    }
    match TopicName::new(name) {
        Ok(name) => Some(name),
        Err(error) => {
            let hint = "choose a name of 1 to 128 letters, digits, '.', '_' and '-'";
            reader.refuse(Some(key.span()), error.to_string(), hint);
            None
        }
    }
}

/// Reads `backoff`: a list of waits, or the numbers of an exponential.
fn read_backoff(section: &Section<'_>) -> Option<Backoff> {
    let reader = section.reader();
    let backoff = match section.value("backoff")?.get_ref() {
        DeValue::Array(waits) => Backoff::schedule(read_waits(reader, waits)?),
        DeValue::Table(_) => {
            let numbers = section.section("backoff", &BACKOFF);
            let second = Duration::from_secs(1);
            let base = numbers.duration("base", Duration::ZERO..=LONGEST).unwrap_or(second);
            let factor = numbers.number("factor").unwrap_or(2.0);
            let hour = Duration::from_secs(3600);
            let max = numbers.duration("max", Duration::ZERO..=LONGEST).unwrap_or(hour.max(base));
            Backoff::exponential(base, factor, max, numbers.number("jitter").unwrap_or(0.2))
        }
        other => {
            let title = format!(
                "`backoff` is {}; it must be a list of durations or a table",
                super::reader::kind(other)
            );
            let hint = "write [\"2m\", \"10m\"] or { base = \"1s\", factor = 2.0, max = \"1h\", jitter = 0.2 }";
            reader.refuse(section.value_at("backoff"), title, hint);
            return None;
        }
    };
    match backoff {
        Ok(backoff) => Some(backoff),
        Err(error) => {
            let hint = "the default is { base = \"1s\", factor = 2.0, max = \"1h\", jitter = 0.2 }";
            reader.refuse(section.key_at("backoff"), error.to_string(), hint);
            None
        }
    }
}

/// Reads every entry of a list of waits, so that all bad ones are told; `None` if one was.
fn read_waits(reader: &Reader<'_>, waits: &DeArray<'_>) -> Option<Vec<Duration>> {
    let waits: Vec<Option<Duration>> = waits
        .iter()
        .map(|wait| reader.duration("backoff", wait, Duration::ZERO..=LONGEST))
        .collect();
    waits.into_iter().collect()
}

/// Reads `on`: a policy for each class it names.
fn read_policies(section: &Section<'_>) -> BTreeMap<FailureClass, Policy> {
    let reader = section.reader();
    let read = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Value<'_>)| {
        let name = key.get_ref().as_ref();
        let Some(class) = FailureClass::ALL.into_iter().find(|class| class.name() == name) else {
            let names = FailureClass::ALL.map(FailureClass::name);
            let hint = match nearest(name, names.into_iter()) {
                Some(class) => format!("did you mean `{class}`?"),
                None => format!("the classes are {}", names.join(", ")),
            };
            reader.refuse(Some(key.span()), format!("`{name}` is no class of failure"), hint);
            return None;
        };
        let text = reader.text(name, value)?;
        let policies =
            [("retry", Policy::Retry), ("dead", Policy::Dead), ("discard", Policy::Discard)];
        let policy = reader.choice(name, &text, Some(value.span()), &policies)?;
        check_policy(reader, class, policy, value).then_some((class, policy))
    };
    let entries = section.table("on").into_iter().flatten();
    entries.filter_map(read).collect()
}

/// Some classes leave less choice: the queue itself buries the job, or it cannot be read at all.
fn check_policy(
    reader: &Reader<'_>,
    class: FailureClass,
    policy: Policy,
    value: &Value<'_>,
) -> bool {
    use FailureClass::{BadDue, BadOptions, Crashed, Expired, Orphan};
    let (title, hint) = match (class, policy) {
        (Crashed | Expired | BadDue | Orphan, Policy::Retry | Policy::Discard) => (
            format!("`{class}` other than \"dead\" is not supported by this version"),
            "write \"dead\", or leave it out; a dead job can be requeued by hand",
        ),
        (BadOptions, Policy::Retry) => (
            "a job whose options cannot be read cannot be tried again".to_owned(),
            "write \"dead\" or \"discard\"",
        ),
        _ => return true,
    };
    reader.refuse(Some(value.span()), title, hint);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_attempts: Option<u32>, waits: Option<usize>) -> Settings {
        let minute = Duration::from_secs(60);
        let backoff = waits.map(|count| Backoff::schedule(vec![minute; count]).unwrap());
        Settings { max_attempts, backoff, ..Settings::default() }
    }

    #[test]
    fn the_closest_word_on_attempts_counts() {
        let attempts = |own, defaults| Topic::new("x".into(), own, &defaults).max_attempts;
        let none = || settings(None, None);
        assert_eq!(attempts(none(), none()), 8);
        assert_eq!(attempts(settings(None, Some(3)), none()), 4);
        assert_eq!(attempts(settings(Some(2), Some(3)), none()), 2);
        assert_eq!(attempts(settings(None, Some(3)), settings(Some(5), None)), 4);
        assert_eq!(attempts(none(), settings(Some(5), Some(3))), 5);
        assert_eq!(attempts(none(), settings(None, Some(3))), 4);
    }

    #[test]
    fn policies_merge_class_by_class_and_cover_every_class() {
        let own = Settings {
            on: BTreeMap::from([(FailureClass::Trap, Policy::Dead)]),
            ..Settings::default()
        };
        let defaults = Settings {
            on: BTreeMap::from([
                (FailureClass::Trap, Policy::Discard),
                (FailureClass::Exit, Policy::Discard),
            ]),
            ..Settings::default()
        };
        let on = Topic::new("x".into(), own, &defaults).on;
        assert_eq!(on.len(), FailureClass::ALL.len());
        assert_eq!(on[&FailureClass::Trap], Policy::Dead);
        assert_eq!(on[&FailureClass::Exit], Policy::Discard);
        assert_eq!(on[&FailureClass::Timeout], Policy::Retry);
    }
}
