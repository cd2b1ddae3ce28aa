//! `[runner]`: how the process as a whole behaves.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use url::Url;

use super::environment::Setting;
use super::reader::ManifestReader;
use super::section::Section;

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How the process behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Worker threads; 1 to 1024. `0` in the file became the number of cores.
    pub threads: usize,
    /// Jobs in flight over all topics; 1 to 10,000.
    pub max_jobs: u32,
    /// Linear memory of all guests together, in bytes; 1 MiB to 16 TiB.
    pub memory: usize,
    /// Where compiled modules are kept; nowhere without.
    pub cache: Option<CacheFolder>,
    /// How long a lease holds without a heartbeat; 1 s to 10 minutes.
    pub lease: Duration,
    /// How long a stop waits for jobs in flight; 0 to 1 hour.
    pub drain_timeout: Duration,
    /// What is logged: a level, or `target=level` pairs with commas.
    pub log: String,
    /// How it is written.
    pub log_format: LogFormat,
    /// The collector of traces, which takes them at `/v1/traces` below this; none records none.
    pub otlp: Option<Url>,
    /// Events that Redis keeps, 0 to 10,000,000; 0 tells none.
    pub events: u32,
}

/// A directory for compiled modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheFolder {
    /// The directory.
    pub path: PathBuf,
    /// Whether the manifest names it. Then it must be good; the one by default is done without if it
    /// cannot be had.
    pub is_named: bool,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
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

/// Reads `cache`: a directory, or the empty text for none; unsaid, that of the user.
fn read_cache(section: &Section<'_>) -> Option<CacheFolder> {
    let reader = section.reader();
    if section.value("cache").is_none() {
        let absolute = |name| {
            let path = Path::new(reader.environment().variable(name)?);
            path.is_absolute().then(|| path.to_owned())
        };
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        return Some(CacheFolder { path: caches?.join("duebox"), is_named: false });
    }
    let text = section.text("cache").filter(|text| !text.is_empty())?;
    if text.contains('\0') {
        let title = format!("`cache` is no path: {text:?}");
        reader.refuse(section.value_at("cache"), title, "write a path, or \"\" for no cache");
        return None;
    }
    Some(CacheFolder { path: reader.folder().join(text), is_named: true })
}

/// Reads `otlp`: the address of a collector, or the empty text for none.
fn read_otlp(section: &Section<'_>) -> Option<Url> {
    let text = section.text("otlp").filter(|text| !text.is_empty())?;
    let refuse = |why: &str| {
        let hint = "write scheme, host and port of a collector of OTLP over HTTP, such as \"http://127.0.0.1:4318\"";
        section.reader().refuse(section.value_at("otlp"), format!("`otlp` {why}"), hint);
        None
    };
    let Ok(url) = Url::parse(&text) else { return refuse(&format!("is no URL: {text:?}")) };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse(&format!("is no address of HTTP: {text:?}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        if let Some(at) = section.value_at("otlp") {
            section.reader().redact(at);
        }
        return refuse(
            "holds a user; what a collector wants to be told stands in OTEL_EXPORTER_OTLP_HEADERS",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse(&format!("is more than an address: {text:?}"));
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
            reader.refuse(at, format!("`{name}` is no log filter: {why}"), hint);
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

/// Checks the text of a log filter: a level, or `target=level` pairs with commas between.
///
/// # Errors
/// The reason, for people. A bare word that is no level is refused: it would name a target and
/// silence the rest.
pub fn check_log_filter(text: &str) -> Result<(), String> {
    for directive in text.split(',').map(str::trim) {
        let bare = !directive.contains(['=', '[']);
        if bare && !LEVELS.contains(&directive.to_ascii_lowercase().as_str()) {
            return Err(format!("{directive:?} is no level"));
        }
    }
    EnvFilter::builder().parse(text).map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_targets_are_filters() {
        for text in ["info", "OFF", "warn,duebox=debug", "handler=off, info"] {
            assert_eq!(check_log_filter(text), Ok(()), "{text}");
        }
        for text in ["", "inof", "info,", "duebox=loud", "info;debug"] {
            assert!(check_log_filter(text).is_err(), "{text}");
        }
    }
}
