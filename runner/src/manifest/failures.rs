//! `backoff`, `on` and `breaker`: what a topic does about attempts that fail.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use duebox_job::{Backoff, FailureClass, Policy};
use toml::Spanned;
use toml::de::{DeArray, DeValue};

use super::keys::{BACKOFF, BREAKER, nearest};
use super::reader::{ManifestReader, kind};
use super::section::{Section, Value};
use super::topic::LONGEST;

/// Failures in a row that a breaker may wait for.
const FAILURES_MAX: u32 = 1_000_000;
const PROBE_LEAST: Duration = Duration::from_millis(100);
const PROBE_LONGEST: Duration = Duration::from_secs(86_400);

const DEAD_OR_DISCARD: &str = "write \"dead\" or \"discard\"; a dead job can be requeued by hand";

/// Reads `backoff`: one wait, a list of waits, or the numbers of an exponential.
pub(super) fn read_backoff(section: &Section<'_>) -> Option<Backoff> {
    let reader = section.reader();
    let backoff = match section.value("backoff")?.get_ref() {
        DeValue::String(_) => {
            let wait = section.duration("backoff", Duration::ZERO..=LONGEST)?;
            Backoff::exponential(wait, 1.0, wait, 0.0)
        }
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
                "`backoff` is {}; it must be a duration, a list of durations or a table",
                kind(other)
            );
            let hint = "write \"10s\", [\"2m\", \"10m\"] or { base = \"1s\", factor = 2.0, max = \"1h\", jitter = 0.2 }";
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
fn read_waits(reader: &ManifestReader<'_>, waits: &DeArray<'_>) -> Option<Vec<Duration>> {
    let waits: Vec<Option<Duration>> = waits
        .iter()
        .map(|wait| reader.duration("backoff", wait, Duration::ZERO..=LONGEST))
        .collect();
    waits.into_iter().collect()
}

/// When the breaker of a topic opens, and how long it waits before it tries a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRule {
    /// Failures in a row that open it; 0 for never.
    pub failures: u32,
    /// How long it starts no job before it tries one.
    pub probe: Duration,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self { failures: 20, probe: Duration::from_secs(30) }
    }
}

/// The keys of a `breaker`, as far as they are written.
#[derive(Default, Clone, Copy)]
pub(super) struct BreakerSettings {
    failures: Option<u32>,
    probe: Option<Duration>,
}

impl BreakerSettings {
    /// Reads the `breaker` of a topic or of the defaults.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let rule = section.section("breaker", &BREAKER);
        Self {
            failures: rule.integer("failures", 0..=FAILURES_MAX),
            probe: rule.duration("probe", PROBE_LEAST..=PROBE_LONGEST),
        }
    }

    /// Lays these settings over the defaults, and both over what goes where neither says anything.
    pub(super) fn over(self, defaults: Self) -> BreakerRule {
        let base = BreakerRule::default();
        BreakerRule {
            failures: self.failures.or(defaults.failures).unwrap_or(base.failures),
            probe: self.probe.or(defaults.probe).unwrap_or(base.probe),
        }
    }
}

/// Reads `on`: a policy for each class it names.
pub(super) fn read_policies(section: &Section<'_>) -> BTreeMap<FailureClass, Policy> {
    let reader = section.reader();
    let read = |(key, value): (&Spanned<Cow<'_, str>>, &Value<'_>)| {
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

/// A class that cannot get better cannot be tried again.
fn check_policy(
    reader: &ManifestReader<'_>,
    class: FailureClass,
    policy: Policy,
    value: &Value<'_>,
) -> bool {
    use FailureClass::{BadDue, BadOptions, Crashed, Expired, Orphan};
    let (why, hint) = match (class, policy) {
        (_, Policy::Dead | Policy::Discard) => return true,
        (Crashed, Policy::Retry) => {
            let hint = "raise max_crashes for more runs, or write \"dead\" or \"discard\"";
            ("such a job was tried as often as max_crashes allows", hint)
        }
        (BadDue, Policy::Retry) => ("its due time is no time, and stays so", DEAD_OR_DISCARD),
        (BadOptions, Policy::Retry) => ("its options cannot be read, and stay so", DEAD_OR_DISCARD),
        (Expired, Policy::Retry) => ("its time to start is over, and stays so", DEAD_OR_DISCARD),
        (Orphan, Policy::Retry) => ("it was in no state that it could go back to", DEAD_OR_DISCARD),
        _ => return true,
    };
    let title = format!("`{class}` cannot be \"retry\": {why}");
    reader.refuse(Some(value.span()), title, hint);
    false
}
