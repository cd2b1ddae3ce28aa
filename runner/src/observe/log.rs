//! The log on stderr: text on a terminal, otherwise one JSON object a line.
//!
//! Lines pass through a bounded buffer to a thread that writes them in bursts, so that a slow reader of
//! stderr never delays a job. Lines that do not fit are dropped and counted, see
//! [`Telemetry::dropped_lines`].

pub mod attempt_log;
pub mod follow;
pub mod handler_log;
mod json_writer;
pub mod line_writer;
pub mod sampling;

use std::fmt::{Debug, Write as _};
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::field::Field;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{self, Writer};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, reload};

use self::follow::FollowWriter;
use self::json_writer::JsonWriter;
use self::line_writer::LineWriter;
use super::printable::OneLine;
use crate::manifest::LogFormat;

/// For how long a dropped line counts as pressure.
const PRESSED_MS: u64 = 1_000;
/// The most lines that wait for stderr.
const LINES_WAITING_MAX: usize = 65_536;

type Filter = EnvFilter;
type LineLayer = Box<dyn Layer<WithFilter> + Send + Sync>;
type WithFilter = tracing_subscriber::layer::Layered<reload::Layer<Filter, Registry>, Registry>;

/// The log of this process; there is one, as there is one global subscriber.
static CURRENT: OnceLock<Switches> = OnceLock::new();

/// What a reload can change.
struct Switches {
    filter: reload::Handle<Filter, Registry>,
    writer: reload::Handle<LineLayer, WithFilter>,
    stderr: NonBlocking,
    dropped: ErrorCounter,
    pressure: Pressure,
}

/// Whether lines are being dropped.
#[derive(Default)]
struct Pressure {
    /// The dropped lines at the last look.
    lost: AtomicU64,
    /// Until when there is pressure, in ms since the first look.
    until_ms: AtomicU64,
}

impl Pressure {
    fn saw(&self, lost: u64, now_ms: u64) -> bool {
        if self.lost.swap(lost, Ordering::Relaxed) != lost {
            self.until_ms.store(now_ms + PRESSED_MS, Ordering::Relaxed);
        }
        now_ms < self.until_ms.load(Ordering::Relaxed)
    }
}

/// The running log. Dropping it writes the lines that wait.
pub struct Telemetry {
    dropped: ErrorCounter,
    _flush: WorkerGuard,
}

/// Why the log cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("{0:?} is not a log filter; write a level or target=level pairs")]
    Filter(String),
    /// The process already has a log.
    #[error("the log cannot start: {0}")]
    Init(#[from] TryInitError),
    /// The process has no log yet.
    #[error("the log cannot change: it has not been started")]
    NotStarted,
    /// The log has ended.
    #[error("the log cannot change: {0}")]
    Reload(#[from] reload::Error),
}

impl Telemetry {
    /// Starts the log of this process.
    ///
    /// # Errors
    /// [`TelemetryError`] if `filter` is invalid, or the process already has a log.
    pub fn start(filter: &str, format: LogFormat) -> Result<Self, TelemetryError> {
        let (stderr, flush) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(LINES_WAITING_MAX)
            .thread_name("duebox-log")
            .finish(LineWriter::new(io::stderr()));
        let dropped = stderr.error_counter();
        let (filter_layer, filter) = reload::Layer::new(parse_filter(filter)?);
        let (writer_layer, writer) = reload::Layer::new(writer_for(format, stderr.clone()));
        tracing_subscriber::registry().with(filter_layer).with(writer_layer).try_init()?;
        CURRENT.get_or_init(|| Switches {
            filter,
            writer,
            stderr,
            dropped: dropped.clone(),
            pressure: Pressure::default(),
        });
        Ok(Self { dropped, _flush: flush })
    }

    /// How many lines were dropped because stderr was too slow.
    pub fn dropped_lines(&self) -> usize {
        self.dropped.dropped_lines()
    }
}

/// How many lines of this process were dropped because stderr was too slow.
pub fn dropped_lines() -> u64 {
    CURRENT.get().map_or(0, |switches| switches.dropped.dropped_lines() as u64)
}

/// True if a line was dropped within the last second: less important lines should be skipped.
pub fn is_pressed() -> bool {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let Some(switches) = CURRENT.get() else { return false };
    let now = BEGAN.get_or_init(Instant::now).elapsed();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2);
    switches.pressure.saw(switches.dropped.dropped_lines() as u64, now_ms)
}

/// Changes the filter and the format from the next line on, for a reload of the manifest.
///
/// # Errors
/// [`TelemetryError`] if `filter` is invalid or there is no log; nothing changes then.
pub fn change(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let switches = CURRENT.get().ok_or(TelemetryError::NotStarted)?;
    switches.filter.reload(filter)?;
    switches.writer.reload(writer_for(format, switches.stderr.clone()))?;
    Ok(())
}

/// The start of every filter: libraries that log what a client, a guest or a name server does, as often as it does
/// it. Wasmtime also opens a span for each WASI call, which costs time in each job. A filter that names these targets
/// takes precedence.
const QUIET_LIBRARIES: &str = "h2=off,hickory_net=error,hickory_proto=error,hickory_resolver=error,\
                               wasmtime_wasi=off,wiggle=off";

fn parse_filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    let filter = format!("{QUIET_LIBRARIES},{text}");
    EnvFilter::builder().parse(filter).map_err(|_| TelemetryError::Filter(text.to_owned()))
}

/// The layer that writes lines. Both formats ignore spans, so the format can change while spans are open.
fn writer_for(format: LogFormat, stderr: NonBlocking) -> LineLayer {
    let human = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let layer = tracing_subscriber::fmt::layer();
    if human {
        let lines = move || FollowWriter { lines: stderr.clone(), is_json: false };
        let layer = layer.with_writer(lines).compact().with_ansi(colours_wanted());
        layer.fmt_fields(one_line_fields()).boxed()
    } else {
        let lines = move || FollowWriter { lines: JsonWriter(stderr.clone()), is_json: true };
        let layer = layer.with_writer(lines).json();
        layer.flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    }
}

/// Writes the fields of a line for people. Their texts come from producers, guests and modules too, so an
/// event stays on its line.
fn one_line_fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    let write = |writer: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        if field.name() != "message" {
            let (italic, dim, plain) = match writer.has_ansi_escapes() {
                true => ("\x1b[3m", "\x1b[0m\x1b[2m", "\x1b[0m"),
                false => ("", "", ""),
            };
            write!(writer, "{italic}{}{dim}={plain}", field.name())?;
        }
        write!(OneLine(writer), "{value:?}")
    };
    format::debug_fn(write).delimited(" ")
}

/// True if stderr is a terminal and `NO_COLOR` is not set.
pub fn colours_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !refused
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn an_event_for_people_is_one_line_whatever_its_fields_hold() {
        #[derive(Clone, Default)]
        struct Written(Arc<Mutex<Vec<u8>>>);
        impl io::Write for Written {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .compact()
            .with_ansi(false)
            .fmt_fields(one_line_fields());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let forged = "1\n2026-01-01T00:00:00Z ERROR forged\x1b[2J";
            tracing::info!(job_id = %forged, reason = forged, "unknown import {forged}");
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
        assert!(!text.contains('\x1b') && text.contains("job_id=1\\n2026"), "{text}");
        assert!(text.contains("unknown import 1\\n"), "{text}");
    }

    #[test]
    fn a_lost_line_is_pressure_for_a_second() {
        let pressure = Pressure::default();
        assert!(!pressure.saw(0, 10));
        assert!(pressure.saw(3, 20) && pressure.saw(3, 1_019));
        assert!(!pressure.saw(3, 1_020));
        assert!(pressure.saw(4, 5_000));
    }
}
