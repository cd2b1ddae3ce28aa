//! Log lines of handlers in the daemon's log: target `handler`, with the job as fields.
//!
//! While stderr is too slow for all lines, each topic gets a fixed number of lines a second. A verbose
//! handler then cannot displace the lines of other topics or of the daemon. Omitted lines are counted by
//! topic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use duebox_sandbox::{JobContext, Level, LogSink};
use parking_lot::{Mutex, MutexGuard};
use tracing::{debug, enabled, error, info, trace, warn};

use crate::observe::log;

/// Lines of a topic in a second while lines are dropped.
const LINES_EACH: u32 = 200;
const SECOND: Duration = Duration::from_secs(1);
/// The most topics whose lines are counted.
const TOPICS_MAX: usize = 10_000;

/// Writes the lines of handlers to the daemon's log, with a limit for each topic under pressure.
#[derive(Debug, Default)]
pub struct HandlerLog {
    by_topic: Mutex<BTreeMap<TopicName, TopicLines>>,
}

/// The lines of a topic under pressure.
#[derive(Debug)]
struct TopicLines {
    second: Instant,
    /// Lines written in this second.
    lines: u32,
    /// Omitted lines since the last report.
    unreported: u64,
    /// All omitted lines.
    left_out: u64,
}

/// Writes a line at a level, if the level is enabled and the topic may write.
macro_rules! line {
    ($self:ident, $log:ident, $level:ident, $job:ident, $text:ident) => {
        if enabled!(target: "handler", tracing::Level::$level) && $self.has_line($job.topic) {
            $log!(
                target: "handler",
                topic = %$job.topic, job_id = %$job.id, attempt = $job.attempt,
                digest = %$job.digest.short(), "{}", $text
            )
        }
    };
}

impl LogSink for HandlerLog {
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
        match level {
            Level::Error => line!(self, error, ERROR, job, text),
            Level::Warn => line!(self, warn, WARN, job, text),
            Level::Info => line!(self, info, INFO, job, text),
            Level::Debug => line!(self, debug, DEBUG, job, text),
            Level::Trace => line!(self, trace, TRACE, job, text),
        }
    }
}

impl HandlerLog {
    /// The omitted lines by topic, of at most `topics` topics.
    pub fn omitted_lines(&self, topics: usize) -> Vec<(String, u64)> {
        let by_topic = self.by_topic();
        let lost = by_topic.iter().filter(|(_, lines)| lines.left_out > 0).take(topics);
        lost.map(|(topic, lines)| (topic.to_string(), lines.left_out)).collect()
    }

    fn has_line(&self, topic: &TopicName) -> bool {
        if !log::is_pressed() {
            return true;
        }
        let now = Instant::now();
        let mut by_topic = self.by_topic();
        if by_topic.len() >= TOPICS_MAX && !by_topic.contains_key(topic) {
            return false;
        }
        let lines = by_topic.entry(topic.clone()).or_insert_with(|| TopicLines::new(now));
        let unreported = lines.take_unreported(now);
        let has_line = lines.take(now);
        drop(by_topic);
        if let Some(lines) = unreported {
            warn!(%topic, lines, "lines of its handlers were not logged: stderr is read too slowly");
        }
        has_line
    }

    fn by_topic(&self) -> MutexGuard<'_, BTreeMap<TopicName, TopicLines>> {
        self.by_topic.lock()
    }
}

impl TopicLines {
    fn new(now: Instant) -> Self {
        Self { second: now, lines: 0, unreported: 0, left_out: 0 }
    }

    /// Takes the number of omitted lines to report, at most once a second.
    fn take_unreported(&mut self, now: Instant) -> Option<u64> {
        let is_over = now.saturating_duration_since(self.second) >= SECOND;
        (is_over && self.unreported > 0).then(|| std::mem::take(&mut self.unreported))
    }

    /// Takes one of this second's lines, if one is left.
    fn take(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.second) >= SECOND {
            (self.second, self.lines) = (now, 0);
        }
        let has_line = self.lines < LINES_EACH;
        if has_line {
            self.lines += 1;
        } else {
            (self.unreported, self.left_out) = (self.unreported + 1, self.left_out + 1);
        }
        has_line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_topic_are_limited_and_the_rest_is_counted() {
        let began = Instant::now();
        let mut lines = TopicLines::new(began);
        let taken = (0..1_000).filter(|_| lines.take(began)).count();
        assert_eq!((taken, lines.left_out), (LINES_EACH as usize, 800));
        assert_eq!(lines.take_unreported(began), None, "it is reported once a second");
        let next = began + SECOND;
        assert_eq!((lines.take_unreported(next), lines.take_unreported(next)), (Some(800), None));
        assert!(lines.take(next) && lines.left_out == 800);
    }

    #[test]
    fn topics_have_separate_limits() {
        let log = HandlerLog::default();
        let now = Instant::now();
        for (topic, lines) in [("loud", 500), ("quiet", 3)] {
            let topic = TopicName::new(topic).unwrap();
            let mut by_topic = log.by_topic();
            let of_topic = by_topic.entry(topic).or_insert_with(|| TopicLines::new(now));
            for _ in 0..lines {
                of_topic.take(now);
            }
        }
        assert_eq!(log.omitted_lines(10), [("loud".to_owned(), 300)]);
    }
}
