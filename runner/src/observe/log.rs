//! The log: to stderr, for people on a terminal and as one JSON object a line elsewhere.
//!
//! Lines pass through a bounded buffer and a thread of their own, which writes them in bursts, so that a
//! slow reader of stderr never holds up a job. When the buffer is full lines are dropped and counted; the
//! count is known to [`Telemetry::dropped_lines`].

pub mod attempt_log;
pub mod handler_log;
pub mod line_writer;
pub mod sampling;

use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, reload};

use self::line_writer::LineWriter;
use crate::manifest::LogFormat;

/// How long a lost line counts as pressure on the log.
const PRESSED_MS: u64 = 1_000;
/// Lines that wait for stderr at most.
const LINES_WAITING_MAX: usize = 65_536;

type Filter = EnvFilter;
type Writer = Box<dyn Layer<WithFilter> + Send + Sync>;
type WithFilter = tracing_subscriber::layer::Layered<reload::Layer<Filter, Registry>, Registry>;

/// The log of this process: like the subscriber it steers, there is one.
static CURRENT: OnceLock<Switches> = OnceLock::new();

/// What a reload turns.
struct Switches {
    filter: reload::Handle<Filter, Registry>,
    writer: reload::Handle<Writer, WithFilter>,
    stderr: NonBlocking,
    dropped: ErrorCounter,
    pressure: Pressure,
}

/// Whether lines are lost, as it was seen last.
#[derive(Default)]
struct Pressure {
    /// Lines lost until then.
    lost: AtomicU64,
    /// Until when that counts as pressure, in ms since the first look.
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

/// The running log. Dropping it writes out what still waits.
pub struct Telemetry {
    dropped: ErrorCounter,
    _flush: WorkerGuard,
}

/// Why the log cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The text is no filter.
    #[error("{0:?} is no log filter; write a level or target=level pairs")]
    Filter(String),
    /// This process has a log already.
    #[error("the log cannot start: {0}")]
    Init(#[from] TryInitError),
    /// This process has no log yet.
    #[error("the log cannot change: it has not been started")]
    NotStarted,
    /// The log is gone.
    #[error("the log cannot change: {0}")]
    Reload(#[from] reload::Error),
}

impl Telemetry {
    /// Starts the log of this process.
    ///
    /// # Errors
    /// [`TelemetryError`] if `filter` is none, or the process has a log already.
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

/// How many lines of this process' log were dropped so far because stderr was too slow.
pub fn dropped_lines() -> u64 {
    CURRENT.get().map_or(0, |switches| switches.dropped.dropped_lines() as u64)
}

/// True while lines are lost, or were within the last second: what matters less should be left out.
pub fn is_pressed() -> bool {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let Some(switches) = CURRENT.get() else { return false };
    let now = BEGAN.get_or_init(Instant::now).elapsed();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2);
    switches.pressure.saw(switches.dropped.dropped_lines() as u64, now_ms)
}

/// Changes what this process logs and how, from the next line on: for a reload of the manifest.
///
/// # Errors
/// [`TelemetryError`] if `filter` is none or there is no log; nothing changes then.
pub fn change(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let switches = CURRENT.get().ok_or(TelemetryError::NotStarted)?;
    switches.filter.reload(filter)?;
    switches.writer.reload(writer_for(format, switches.stderr.clone()))?;
    Ok(())
}

/// What every filter begins with: wasmtime makes a span of each WASI call, which a job would pay for.
/// A filter that names these targets itself goes before.
const QUIET_LIBRARIES: &str = "wasmtime_wasi=warn,wiggle=warn";

fn parse_filter(text: &str) -> Result<EnvFilter, TelemetryError> {
    let filter = format!("{QUIET_LIBRARIES},{text}");
    EnvFilter::builder().parse(filter).map_err(|_| TelemetryError::Filter(text.to_owned()))
}

/// The layer that writes lines. Neither form looks at spans, so a form can follow the other while
/// spans of the other are open.
fn writer_for(format: LogFormat, stderr: NonBlocking) -> Writer {
    let human = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr);
    if human {
        layer.compact().with_ansi(colours_wanted()).boxed()
    } else {
        layer.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed()
    }
}

/// True if stderr is a terminal whose user has not set `NO_COLOR`.
pub fn colours_wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_line_is_pressure_for_a_second() {
        let pressure = Pressure::default();
        assert!(!pressure.saw(0, 10));
        assert!(pressure.saw(3, 20) && pressure.saw(3, 1_019));
        assert!(!pressure.saw(3, 1_020));
        assert!(pressure.saw(4, 5_000));
    }
}
