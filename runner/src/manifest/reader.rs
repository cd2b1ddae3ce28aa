//! Reads single values of a manifest and collects its problems.
//!
//! Each getter returns `None` if, and only if, it recorded a problem.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use duebox_job::{DurationError, format_duration, parse_duration};
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

use super::environment::Environment;
use super::keys::nearest;
use super::problem::SourceProblem;

/// A value with its place.
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Reads values with the environment of one manifest and collects its problems.
pub(super) struct ManifestReader<'s> {
    environment: &'s Environment,
    folder: &'s Path,
    problems: RefCell<Vec<SourceProblem>>,
    warnings: RefCell<Vec<SourceProblem>>,
    /// Byte ranges of the text that reports must not show.
    redacted: RefCell<Vec<Range<usize>>>,
    /// Missing or invalid files and directories that the manifest needs.
    awaited: RefCell<Vec<PathBuf>>,
}

/// What reading a manifest found.
pub(super) struct Findings {
    pub(super) problems: Vec<SourceProblem>,
    /// Risky settings of a valid manifest.
    pub(super) warnings: Vec<SourceProblem>,
    /// Byte ranges of the text that reports must not show.
    pub(super) redacted: Vec<Range<usize>>,
    /// Files and directories whose change may make the manifest valid.
    pub(super) awaited: Vec<PathBuf>,
}

impl<'s> ManifestReader<'s> {
    pub(super) fn new(environment: &'s Environment, folder: &'s Path) -> Self {
        Self {
            environment,
            folder,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            redacted: RefCell::default(),
            awaited: RefCell::default(),
        }
    }

    pub(super) fn environment(&self) -> &'s Environment {
        self.environment
    }

    /// The folder that relative paths start from.
    pub(super) fn folder(&self) -> &'s Path {
        self.folder
    }

    pub(super) fn into_findings(self) -> Findings {
        Findings {
            problems: self.problems.into_inner(),
            warnings: self.warnings.into_inner(),
            redacted: self.redacted.into_inner(),
            awaited: self.awaited.into_inner(),
        }
    }

    /// Records a missing or invalid file or directory. Its change may make the manifest valid.
    pub(super) fn await_change(&self, path: &Path) {
        self.awaited.borrow_mut().push(path.to_owned());
    }

    /// Keeps a byte range out of every report, because it contains a secret.
    pub(super) fn redact(&self, at: Range<usize>) {
        self.redacted.borrow_mut().push(at);
    }

    /// Records a problem. `hint` is the remedy.
    pub(super) fn refuse(&self, at: Option<Range<usize>>, title: String, hint: impl Into<String>) {
        self.problems.borrow_mut().push(SourceProblem { at, title, hint: hint.into() });
    }

    /// Whether a problem was recorded so far.
    pub(super) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Records a risky setting. `hint` is a safer one.
    pub(super) fn warn(&self, at: Option<Range<usize>>, title: String, hint: impl Into<String>) {
        self.warnings.borrow_mut().push(SourceProblem { at, title, hint: hint.into() });
    }

    fn refuse_kind(&self, name: &str, value: &Value<'_>, wanted: &str, example: &str) {
        let title = format!("`{name}` is {}; it must be {wanted}", kind(value.get_ref()));
        self.refuse(Some(value.span()), title, format!("write it as {example}"));
    }

    fn check_range<T: PartialOrd + Copy, S: Display>(
        &self,
        name: &str,
        value: &Value<'_>,
        (found, range): (T, RangeInclusive<T>),
        show: impl Fn(T) -> S,
    ) -> Option<T> {
        if range.contains(&found) {
            return Some(found);
        }
        let (least, most) = (show(*range.start()), show(*range.end()));
        let title = format!("`{name}` is {}; it must be from {least} to {most}", show(found));
        let hint = if found < *range.start() {
            format!("write at least {least}")
        } else {
            format!("write at most {most}")
        };
        self.refuse(Some(value.span()), title, hint);
        None
    }

    /// A string, with its `${VAR}` replaced.
    pub(super) fn text(&self, name: &str, value: &Value<'_>) -> Option<String> {
        let DeValue::String(text) = value.get_ref() else {
            self.refuse_kind(name, value, "a string", "\"…\"");
            return None;
        };
        self.expand(name, text, value.span())
    }

    /// Replaces the `${VAR}` of a string at the range `at`.
    pub(super) fn expand(&self, name: &str, text: &str, at: Range<usize>) -> Option<String> {
        match self.environment.expand(text) {
            Ok(text) => Some(text),
            Err(error) => {
                self.refuse(Some(at), format!("`{name}`: {error}"), error.hint());
                None
            }
        }
    }

    /// A duration such as `"30s"`.
    pub(super) fn duration(
        &self,
        name: &str,
        value: &Value<'_>,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        if !value.get_ref().is_str() {
            self.refuse_kind(name, value, "a duration in quotes", "\"30s\"");
            return None;
        }
        let text = self.text(name, value)?;
        match parse_duration(&text) {
            Ok(found) => self.check_range(name, value, (found, range), format_duration),
            Err(DurationError::Form(text)) => {
                let title = format!("`{name}`: {text:?} is not a duration");
                let hint =
                    "write a number with a unit (ms, s, m, h, d), such as \"30s\" or \"1h30m\"";
                self.refuse(Some(value.span()), title, hint);
                None
            }
            Err(error @ DurationError::TooLong(_)) => {
                let hint = format!("write at most {}", format_duration(*range.end()));
                self.refuse(Some(value.span()), format!("`{name}`: {error}"), hint);
                None
            }
        }
    }

    /// An integer.
    pub(super) fn integer(
        &self,
        name: &str,
        value: &Value<'_>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            let example = format!("a number from {} to {}", range.start(), range.end());
            self.refuse_kind(name, value, "an integer", &example);
            return None;
        };
        let range = i128::from(*range.start())..=i128::from(*range.end());
        let Some(found) = integer_of(integer) else {
            let title = format!("`{name}` is {integer}; it must be at most {}", range.end());
            self.refuse(Some(value.span()), title, format!("write at most {}", range.end()));
            return None;
        };
        let found = self.check_range(name, value, (found, range), |number| number)?;
        u64::try_from(found).ok()
    }

    /// A finite number: a float or an integer.
    pub(super) fn number(&self, name: &str, value: &Value<'_>) -> Option<f64> {
        let text = match value.get_ref() {
            DeValue::Float(float) => float.as_str().to_owned(),
            DeValue::Integer(integer) => {
                integer_of(integer).map(|number| number.to_string()).unwrap_or_default()
            }
            _ => String::new(),
        };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        if number.is_none() {
            self.refuse_kind(name, value, "a finite number", "2.0");
        }
        number
    }

    /// A size such as `"64MiB"`. `range` is in bytes.
    pub(super) fn size(
        &self,
        name: &str,
        value: &Value<'_>,
        range: RangeInclusive<u64>,
    ) -> Option<usize> {
        if !value.get_ref().is_str() {
            self.refuse_kind(name, value, "a size in quotes", "\"1MiB\"");
            return None;
        }
        let text = self.text(name, value)?;
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        let Some(ByteSize(found)) = text.parse().ok().filter(|_| has_unit) else {
            let title = format!("`{name}`: {text:?} is not a size");
            let hint = "write a number with a unit (B, KiB, MiB, GiB), such as \"64MiB\"";
            self.refuse(Some(value.span()), title, hint);
            return None;
        };
        let show = |bytes| ByteSize(bytes).display().iec().to_string();
        usize::try_from(self.check_range(name, value, (found, range), show)?).ok()
    }

    /// One of the given words. `name` is a key, a flag or a variable.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        text: &str,
        at: Option<Range<usize>>,
        words: &[(&str, T)],
    ) -> Option<T> {
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*meaning);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let title = format!("`{name}` is {text:?}; it must be one of {}", known.join(", "));
        let hint = match nearest(text, known.iter().copied()) {
            Some(word) => format!("did you mean {word:?}?"),
            None => format!("write one of {}", known.join(", ")),
        };
        self.refuse(at, title, hint);
        None
    }

    /// A path. A relative one starts from the manifest's folder.
    pub(super) fn path(&self, name: &str, value: &Value<'_>) -> Option<PathBuf> {
        let text = self.text(name, value)?;
        if text.is_empty() || text.contains('\0') {
            let title = format!("`{name}` is not a path: {text:?}");
            self.refuse(
                Some(value.span()),
                title,
                "write a path, relative to the manifest's folder",
            );
            return None;
        }
        // `components` removes the inner `.` that a path such as ./data leaves.
        Some(self.folder.join(text).components().collect())
    }

    /// A boolean.
    pub(super) fn boolean(&self, name: &str, value: &Value<'_>) -> Option<bool> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.refuse_kind(name, value, "a boolean", "true, without quotes");
        }
        truth
    }

    /// An array. Its entries are not checked.
    pub(super) fn list<'t>(&self, name: &str, value: &'t Value<'t>) -> Option<&'t DeArray<'t>> {
        let list = value.get_ref().as_array();
        if list.is_none() {
            self.refuse_kind(name, value, "an array", "[…]");
        }
        list
    }

    /// A table. Its keys are not checked. `key_at` is the range to show, since a table may span many lines.
    pub(super) fn table<'t>(
        &self,
        name: &str,
        value: &'t Value<'t>,
        key_at: Option<Range<usize>>,
    ) -> Option<&'t DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let title = format!("`{name}` is {}; it must be a table", kind(value.get_ref()));
            self.refuse(key_at, title, format!("write it as {name} = {{ … }} or as a [table]"));
        }
        table
    }
}

/// The type of a value, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date-time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The number, or `None` if it exceeds 128 bits.
pub(super) fn integer_of(integer: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}
