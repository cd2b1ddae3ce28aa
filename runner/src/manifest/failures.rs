//! `backoff`, `on` and `breaker`: how a topic handles failed attempts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZero;
use std::time::Duration;

use duebox_job::{Backoff, BackoffError, FailureClass, Policy, format_duration};
use toml::Spanned;
use toml::de::{DeArray, DeValue};

use super::keys::{BACKOFF, BREAKER, nearest};
use super::reader::{ManifestReader, Value, kind};
use super::section::{LONGEST, Section};

/// The highest `breaker.failures`.
const FAILURES_MAX: u32 = 1_000_000;
const PROBE_LEAST: Duration = Duration::from_millis(100);
const PROBE_LONGEST: Duration = Duration::from_secs(86_400);

const DEAD_OR_DISCARD: &str = "write \"dead\" or \"discard\"; a dead job can be requeued manually";

/// Reads `backoff`: one wait, an array of waits, or the parameters of an exponential backoff.
pub(super) fn read_backoff(section: &Section<'_>) -> Option<Backoff> {
    let reader = section.reader();
    let backoff = match section.value("backoff")?.get_ref() {
        DeValue::String(_) => {
            let wait = section.duration("backoff", Duration::ZERO..=LONGEST)?;
            Backoff::exponential(wait, 1.0, wait, 0.0)
        }
        DeValue::Array(waits) => Backoff::schedule(read_waits(reader, waits)?),
        DeValue::Table(_) => read_exponential(&section.section("backoff", &BACKOFF)),
        other => {
            let title = format!(
                "`backoff` is {}; it must be a duration, an array of durations or a table",
                kind(other)
            );
            let hint = format!("write \"10s\", [\"2m\", \"10m\"] or {}", default_backoff());
            reader.refuse(section.value_at("backoff"), title, hint);
            return None;
        }
    };
    match backoff {
        Ok(backoff) => Some(backoff),
        Err(error) => {
            let hint = format!("the default is {}", default_backoff());
            reader.refuse(section.key_at("backoff"), error.to_string(), hint);
            None
        }
    }
}

/// The default backoff as the manifest writes it, for hints.
fn default_backoff() -> String {
    format!(
        "{{ base = \"{}\", factor = {:?}, max = \"{}\", jitter = {:?} }}",
        format_duration(Backoff::DEFAULT_BASE),
        Backoff::DEFAULT_FACTOR,
        format_duration(Backoff::DEFAULT_MAX),
        Backoff::DEFAULT_JITTER,
    )
}

/// Reads the parameters of an exponential backoff. A missing `max` is at least `base`.
fn read_exponential(parameters: &Section<'_>) -> Result<Backoff, BackoffError> {
    let base =
        parameters.duration("base", Duration::ZERO..=LONGEST).unwrap_or(Backoff::DEFAULT_BASE);
    let max = parameters.duration("max", Duration::ZERO..=LONGEST);
    Backoff::exponential(
        base,
        parameters.number("factor").unwrap_or(Backoff::DEFAULT_FACTOR),
        max.unwrap_or(Backoff::DEFAULT_MAX.max(base)),
        parameters.number("jitter").unwrap_or(Backoff::DEFAULT_JITTER),
    )
}

/// Reads an array of waits and reports every invalid one; `None` if one is invalid.
fn read_waits(reader: &ManifestReader<'_>, waits: &DeArray<'_>) -> Option<Vec<Duration>> {
    let waits: Vec<Option<Duration>> = waits
        .iter()
        .map(|wait| reader.duration("backoff", wait, Duration::ZERO..=LONGEST))
        .collect();
    waits.into_iter().collect()
}

/// When the breaker of a topic opens, and when it tries a job again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRule {
    /// Consecutive failures that open it; `None` if none do.
    pub failures: Option<NonZero<u32>>,
    /// How long it stays open before it tries jobs.
    pub probe: Duration,
    /// The failures that count.
    pub on: CountedClasses,
}

/// The failure classes that a breaker counts. The default has those that say that the module is broken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CountedClasses {
    /// A bit for each class.
    bits: u32,
}

impl CountedClasses {
    /// The classes that a manifest may list: those of the module, and nack.
    pub const ALLOWED: [FailureClass; 8] = [
        FailureClass::Trap,
        FailureClass::Timeout,
        FailureClass::OutOfMemory,
        FailureClass::OutOfFuel,
        FailureClass::StackOverflow,
        FailureClass::Exit,
        FailureClass::BadVerdict,
        FailureClass::Nack,
    ];

    /// True if a failure of this class counts.
    pub fn contains(self, class: FailureClass) -> bool {
        self.bits & (1 << class as u32) != 0
    }
}

impl FromIterator<FailureClass> for CountedClasses {
    fn from_iter<I: IntoIterator<Item = FailureClass>>(classes: I) -> Self {
        Self { bits: classes.into_iter().fold(0, |bits, class| bits | 1 << class as u32) }
    }
}

impl Default for CountedClasses {
    fn default() -> Self {
        Self::ALLOWED.into_iter().filter(|class| *class != FailureClass::Nack).collect()
    }
}

impl fmt::Debug for CountedClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(FailureClass::ALL.iter().filter(|c| self.contains(**c))).finish()
    }
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self {
            failures: NonZero::new(20),
            probe: Duration::from_secs(30),
            on: CountedClasses::default(),
        }
    }
}

/// The keys of `breaker` that the table sets.
#[derive(Default, Clone, Copy)]
pub(super) struct BreakerTable {
    failures: Option<u32>,
    probe: Option<Duration>,
    on: Option<CountedClasses>,
}

impl BreakerTable {
    /// Reads the `breaker` of a topic or of the defaults.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let rule = section.section("breaker", &BREAKER);
        Self {
            failures: rule.integer("failures", 0..=FAILURES_MAX),
            probe: rule.duration("probe", PROBE_LEAST..=PROBE_LONGEST),
            on: rule.list("on").and_then(|classes| read_counted(rule.reader(), classes)),
        }
    }

    /// These settings, else those of `[defaults]`, else the built-in ones.
    pub(super) fn over(self, defaults: Self) -> BreakerRule {
        let base = BreakerRule::default();
        BreakerRule {
            failures: self.failures.or(defaults.failures).map_or(base.failures, NonZero::new),
            probe: self.probe.or(defaults.probe).unwrap_or(base.probe),
            on: self.on.or(defaults.on).unwrap_or(base.on),
        }
    }
}

/// Reads the classes that a breaker counts, and reports every invalid one; `None` if one is invalid.
fn read_counted(reader: &ManifestReader<'_>, classes: &DeArray<'_>) -> Option<CountedClasses> {
    let words = CountedClasses::ALLOWED.map(|class| (class.name(), class));
    let read = |class: &Value<'_>| {
        let text = reader.text("breaker.on", class)?;
        if text == FailureClass::Drop.name() {
            let title = "`breaker.on` cannot count \"drop\"".to_owned();
            let hint = "a drop is the handler's verdict on one job; count \"nack\" or a class of the module";
            reader.refuse(Some(class.span()), title, hint);
            return None;
        }
        reader.choice("breaker.on", &text, Some(class.span()), &words)
    };
    let classes: Vec<Option<FailureClass>> = classes.iter().map(read).collect();
    classes.into_iter().collect()
}

/// Reads `on`: a policy for each listed failure class.
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
            reader.refuse(Some(key.span()), format!("`{name}` is not a failure class"), hint);
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

/// Refuses `retry` for a class whose cause a retry does not change.
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
            ("the job has already used its max_crashes", hint)
        }
        (BadDue, Policy::Retry) => ("its due time stays invalid", DEAD_OR_DISCARD),
        (BadOptions, Policy::Retry) => ("its options stay invalid", DEAD_OR_DISCARD),
        (Expired, Policy::Retry) => ("it stays expired", DEAD_OR_DISCARD),
        (Orphan, Policy::Retry) => ("it has no state to return to", DEAD_OR_DISCARD),
        _ => return true,
    };
    let title = format!("`{class}` cannot be \"retry\": {why}");
    reader.refuse(Some(value.span()), title, hint);
    false
}
