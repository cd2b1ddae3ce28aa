//! `[runner]`: settings of the whole process.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use url::Url;

use super::environment::{Environment, Setting};
use super::reader::ManifestReader;
use super::section::Section;

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Settings of the whole process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Executor threads; 1 to 1024. `0` in the file means the number of cores.
    pub threads: usize,
    /// Jobs in flight, all topics together; 1 to 10,000.
    pub max_jobs: u32,
    /// Linear memory of all instances together, in bytes; 1 MiB to 16 TiB.
    pub memory: usize,
    /// The directory of compiled modules; `None` disables the cache.
    pub cache: Option<CacheFolder>,
    /// What compiling one module may cost.
    pub compile: CompileLimits,
    /// The folder of the engines of languages; `None` looks next to the program.
    pub languages: Option<PathBuf>,
    /// A virtual environment, or a folder of packages, from which handlers in Python import.
    pub python_path: Option<PathBuf>,
    /// How long a lease holds without a heartbeat; 1 s to 10 minutes.
    pub lease: Duration,
    /// How long a stop waits for running jobs; 0 to 1 hour.
    pub drain_timeout: Duration,
    /// The log filter: a level, or `target=level` pairs separated by commas.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The OTLP collector; traces are sent to `/v1/traces` below this URL. `None` records no traces.
    pub otlp: Option<Url>,
    /// Job events that Redis keeps; 0 (none) to 10,000,000.
    pub events: u32,
}

/// What compiling one module may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Memory of the process that compiles, in bytes; 64 MiB to 1 TiB.
    pub memory: usize,
    /// Its CPU time; 1 s to 1 hour.
    pub time: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self { memory: 1 << 30, time: Duration::from_secs(60) }
    }
}

/// A directory for compiled modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder {
    /// The directory.
    pub path: PathBuf,
    /// Whether the manifest sets it. If it cannot be used, a configured directory is an error, and the
    /// default one disables the cache.
    pub is_named: bool,
}

impl CacheFolder {
    /// The user's cache directory: `duebox` in `$XDG_CACHE_HOME` or in `~/.cache`. None if neither variable is an
    /// absolute path.
    pub fn of_user(environment: &Environment) -> Option<Self> {
        let absolute = |name| {
            let path = Path::new(environment.variable(name)?);
            path.is_absolute().then(|| path.to_owned())
        };
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Some(Self { path: caches?.join("duebox"), is_named: false })
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable on a terminal, JSON otherwise.
    Auto,
    /// Human-readable.
    Human,
    /// One JSON object per line.
    Json,
}

const LOG_FORMATS: [(&str, LogFormat); 3] =
    [("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)];

impl Runner {
    /// Reads `[runner]`.
    pub(super) fn read(section: &Section<'_>) -> Self {
        let second = Duration::from_secs(1);
        let threads = section.integer("threads", 0..=1024).unwrap_or(0);
        Self {
            threads: if threads == 0 { cores() } else { threads as usize },
            max_jobs: section.integer("max_jobs", 1..=10_000).unwrap_or(256),
            memory: section.size("memory", MIB..=16 * TIB).unwrap_or(1 << 30),
            cache: read_cache(section),
            compile: read_compile(section),
            languages: read_folder(section, "languages"),
            python_path: read_folder(section, "python_path"),
            lease: section.duration("lease", second..=600 * second).unwrap_or(15 * second),
            drain_timeout: section
                .duration("drain_timeout", Duration::ZERO..=3600 * second)
                .unwrap_or(25 * second),
            log: read_log(section).unwrap_or_else(|| "info".to_owned()),
            log_format: read_log_format(section).unwrap_or(LogFormat::Auto),
            otlp: read_otlp(section),
            events: section.integer("events", 0..=10_000_000).unwrap_or(0),
        }
    }
}

/// Reads `cache`: a directory, or the empty string for none. The default is the user's cache directory.
fn read_cache(section: &Section<'_>) -> Option<CacheFolder> {
    let reader = section.reader();
    if section.value("cache").is_none() {
        return CacheFolder::of_user(reader.environment());
    }
    let text = section.text("cache").filter(|text| !text.is_empty())?;
    if text.contains('\0') {
        let title = format!("`cache` is not a path: {text:?}");
        reader.refuse(section.value_at("cache"), title, "write a path, or \"\" for no cache");
        return None;
    }
    Some(CacheFolder { path: reader.folder().join(text), is_named: true })
}

/// Reads a directory; the empty string means the default.
fn read_folder(section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let text = section.text(key).filter(|text| !text.is_empty())?;
    if text.contains('\0') {
        let title = format!("`{key}` is not a path: {text:?}");
        section.reader().refuse(section.value_at(key), title, "write a path");
        return None;
    }
    Some(section.reader().folder().join(text))
}

/// Reads `compile_memory` and `compile_time`.
fn read_compile(section: &Section<'_>) -> CompileLimits {
    let (base, second) = (CompileLimits::default(), Duration::from_secs(1));
    CompileLimits {
        memory: section.size("compile_memory", 64 * MIB..=TIB).unwrap_or(base.memory),
        time: section.duration("compile_time", second..=3600 * second).unwrap_or(base.time),
    }
}

/// Reads `otlp`: the URL of a collector, or the empty string for none.
fn read_otlp(section: &Section<'_>) -> Option<Url> {
    let text = section.text("otlp").filter(|text| !text.is_empty())?;
    let refuse = |why: &str| {
        let hint = "write scheme, host and port of an OTLP/HTTP collector, such as \"http://127.0.0.1:4318\"";
        section.reader().refuse(section.value_at("otlp"), format!("`otlp` {why}"), hint);
        None
    };
    let Ok(url) = Url::parse(&text) else { return refuse(&format!("is not a URL: {text:?}")) };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse(&format!("is not an HTTP URL: {text:?}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        if let Some(at) = section.value_at("otlp") {
            section.reader().redact(at);
        }
        return refuse(
            "contains a user name or password; send credentials with OTEL_EXPORTER_OTLP_HEADERS",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse(&format!("has a query or a fragment: {text:?}"));
    }
    Some(url)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn setting(section: &Section<'_>, key: &str, name: &'static str) -> Option<Setting> {
    Some(Setting { text: section.text(key)?, name, at: section.value_at(key) })
}

fn read_log(section: &Section<'_>) -> Option<String> {
    let reader: &ManifestReader<'_> = section.reader();
    let over = reader.environment().log();
    let Setting { text, name, at } = over.or_else(|| setting(section, "log", "runner.log"))?;
    match check_log_filter(&text) {
        Ok(()) => Some(text),
        Err(why) => {
            let hint = format!("write a level ({}) or target=level pairs", LEVELS.join(", "));
            reader.refuse(at, format!("`{name}` is not a log filter: {why}"), hint);
            None
        }
    }
}

fn read_log_format(section: &Section<'_>) -> Option<LogFormat> {
    let over = section.reader().environment().log_format();
    let Setting { text, name, at } =
        over.or_else(|| setting(section, "log_format", "runner.log_format"))?;
    section.reader().choice(name, &text, at, &LOG_FORMATS)
}

/// An invalid log filter.
#[derive(Debug, thiserror::Error)]
pub enum LogFilterError {
    /// A word on its own is not a level.
    #[error("{0:?} is not a level")]
    NotALevel(String),
    /// A directive that cannot be parsed.
    #[error(transparent)]
    Syntax(tracing_subscriber::filter::ParseError),
}

/// Checks a log filter: a level, or `target=level` pairs separated by commas.
///
/// # Errors
/// [`LogFilterError`]. A single word that is not a level is refused, because it would enable one target and
/// silence all others.
pub fn check_log_filter(text: &str) -> Result<(), LogFilterError> {
    for directive in text.split(',').map(str::trim) {
        let bare = !directive.contains(['=', '[']);
        if bare && !LEVELS.contains(&directive.to_ascii_lowercase().as_str()) {
            return Err(LogFilterError::NotALevel(directive.to_owned()));
        }
    }
    EnvFilter::builder().parse(text).map(drop).map_err(LogFilterError::Syntax)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_valid_filters() {
        for text in ["info", "OFF", "warn,duebox=debug", "handler=off, info"] {
            assert!(check_log_filter(text).is_ok(), "{text}");
        }
        for text in ["", "inof", "info,", "duebox=loud", "info;debug"] {
            assert!(check_log_filter(text).is_err(), "{text}");
        }
    }
}
