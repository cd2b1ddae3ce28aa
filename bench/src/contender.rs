//! One of the queues in the peer comparison, and how its results are shown.
//!
//! A value that was not measured is empty, never zero. A remark reports lost and early jobs.

use serde::Serialize;

use crate::report::number;

/// A queue at one kind of settings, with its results.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) settings: String,
    /// Ready jobs handled per second.
    pub(crate) drain_per_s: Option<f64>,
    /// Redis commands per job, those inside scripts included.
    pub(crate) commands: Option<f64>,
    /// CPU time of the worker per job, µs.
    pub(crate) worker_us: Option<f64>,
    /// CPU time of Redis per job, µs.
    pub(crate) redis_us: Option<f64>,
    /// Peak memory of the worker while draining, MB.
    pub(crate) memory_mb: Option<f64>,
    /// Pushes per second, one at a time.
    pub(crate) push_one: Option<f64>,
    /// Pushes per second with 32 in flight.
    pub(crate) push_flight: Option<f64>,
    /// Pushes per second in batches of 1,000.
    pub(crate) push_batch: Option<f64>,
    /// From due time to start, of jobs that fall due one by one, ms.
    pub(crate) late_p50_ms: Option<f64>,
    pub(crate) late_p99_ms: Option<f64>,
    /// How many of those jobs started early.
    pub(crate) early: Option<f64>,
    /// From the common due time of many jobs to the start of the last one, ms.
    pub(crate) burst_ms: Option<f64>,
    /// Redis commands per second of an idle worker.
    pub(crate) idle_commands: Option<f64>,
    /// Jobs posted to a server per second, by jobs at once (16, 64, 256).
    pub(crate) posts_per_s: [Option<f64>; 3],
    /// From due time to arrival at the server, p99, likewise.
    pub(crate) posts_p99_ms: [Option<f64>; 3],
    /// Anything else worth knowing, such as lost jobs.
    pub(crate) remarks: Vec<String>,
}

impl Contender {
    /// Column titles.
    pub(crate) const TITLES: [&'static str; 19] = [
        "drain/s",
        "commands/job",
        "worker µs",
        "Redis µs",
        "memory MB",
        "push/s, one",
        "32 in flight",
        "batches",
        "late p50 ms",
        "p99 ms",
        "early",
        "burst ms",
        "idle commands/s",
        "posts/s, 16",
        "64",
        "256",
        "posts p99 ms, 16",
        "64",
        "256",
    ];

    /// The name, with the kind of settings if there is one.
    pub(crate) fn title(&self) -> String {
        match self.settings.as_str() {
            "" => self.name.clone(),
            settings => format!("{}, {settings}", self.name),
        }
    }

    /// The values as text, in the order of `TITLES`.
    pub(crate) fn cells(&self) -> [String; 19] {
        let [per_s_16, per_s_64, per_s_256] = self.posts_per_s;
        let [p99_ms_16, p99_ms_64, p99_ms_256] = self.posts_p99_ms;
        [
            self.drain_per_s,
            self.commands,
            self.worker_us,
            self.redis_us,
            self.memory_mb,
            self.push_one,
            self.push_flight,
            self.push_batch,
            self.late_p50_ms,
            self.late_p99_ms,
            self.early,
            self.burst_ms,
            self.idle_commands,
            per_s_16,
            per_s_64,
            per_s_256,
            p99_ms_16,
            p99_ms_64,
            p99_ms_256,
        ]
        .map(|figure| figure.map_or_else(|| "–".to_owned(), shown))
    }
}

fn shown(figure: f64) -> String {
    if figure == 0.0 { "0".to_owned() } else { number(figure) }
}

/// Renders the comparison for a terminal.
pub(crate) fn table(contenders: &[Contender]) -> String {
    let mut text = format!("{:<20}", "");
    let widths = Contender::TITLES.map(|title| title.chars().count().max(8));
    for (title, width) in Contender::TITLES.iter().zip(widths) {
        text.push_str(&format!("  {title:>width$}"));
    }
    for contender in contenders {
        text.push_str(&format!("\n{:<20}", contender.title()));
        for (cell, width) in contender.cells().iter().zip(widths) {
            text.push_str(&format!("  {cell:>width$}"));
        }
    }
    text.push('\n');
    for contender in contenders {
        for remark in &contender.remarks {
            text.push_str(&format!("\n{}: {remark}", contender.title()));
        }
    }
    text
}
