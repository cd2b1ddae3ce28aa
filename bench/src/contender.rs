//! One of the queues that are measured side by side, and how its figures are shown.
//!
//! What was not measured is empty, never zero; what was lost or came early is said in a remark.

use serde::Serialize;

use crate::report::number;

/// A queue with one kind of settings, and what was found of it.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) settings: String,
    /// Ready jobs per second.
    pub(crate) drain_per_s: Option<f64>,
    /// Redis commands for each, those inside scripts too.
    pub(crate) commands: Option<f64>,
    /// Processor time for each in the worker, µs.
    pub(crate) worker_us: Option<f64>,
    /// Processor time for each in Redis, µs.
    pub(crate) redis_us: Option<f64>,
    /// The most memory of the worker while draining, MB.
    pub(crate) memory_mb: Option<f64>,
    /// Pushes per second, one after the other.
    pub(crate) push_one: Option<f64>,
    /// With 32 under way at once.
    pub(crate) push_flight: Option<f64>,
    /// In batches.
    pub(crate) push_batch: Option<f64>,
    /// From due time to start, jobs that fall due one by one, ms.
    pub(crate) late_p50_ms: Option<f64>,
    pub(crate) late_p99_ms: Option<f64>,
    /// Those of them that started early.
    pub(crate) early: Option<f64>,
    /// From the one due time of many jobs to the last one's start, ms.
    pub(crate) burst_ms: Option<f64>,
    /// Redis commands per second with nothing to do.
    pub(crate) idle_commands: Option<f64>,
    /// What else there is to know, such as jobs that were lost.
    pub(crate) remarks: Vec<String>,
}

impl Contender {
    /// What the cells say.
    pub(crate) const TITLES: [&'static str; 13] = [
        "drain/s",
        "commands a job",
        "worker µs",
        "Redis µs",
        "memory MB",
        "push/s, one",
        "32 at once",
        "batches",
        "late p50 ms",
        "p99 ms",
        "early",
        "burst ms",
        "idle commands/s",
    ];

    /// Name and settings.
    pub(crate) fn title(&self) -> String {
        match self.settings.as_str() {
            "" => self.name.clone(),
            settings => format!("{}, {settings}", self.name),
        }
    }

    /// The figures as texts, in the order of the titles.
    pub(crate) fn cells(&self) -> [String; 13] {
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
        ]
        .map(|figure| figure.map_or_else(|| "–".to_owned(), shown))
    }
}

fn shown(figure: f64) -> String {
    if figure == 0.0 { "0".to_owned() } else { number(figure) }
}

/// The table of all, for a terminal.
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
