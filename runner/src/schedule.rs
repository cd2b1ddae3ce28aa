//! When a `[[schedules]]` entry fires, and what it pushes then.
//!
//! Pure: the time is passed in. A tick is a unix time in ms that follows from the entry alone, so
//! that all runners, whenever they were started, name the same ticks.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{TopicName, format_duration};

mod cron_line;

pub use self::cron_line::{CronLine, zones};

/// The shortest and the longest `every`.
pub const EVERY_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);
/// The longest name of a schedule, in bytes.
const NAME_MAX: usize = 64;

/// One entry of `[[schedules]]`: a job that is pushed at each of its ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its name, of which there is one in a manifest; see [`check_name`].
    pub name: String,
    /// The topic it pushes to.
    pub topic: TopicName,
    /// Its ticks.
    pub when: When,
    /// What the handler gets.
    pub payload: Bytes,
    /// What is done about ticks that passed while no runner was up.
    pub missed: Missed,
    /// How old a missed tick may be to be made up for; 0 to ten years.
    pub window: Duration,
}

/// What is done about ticks that passed while no runner was up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missed {
    /// Nothing.
    Skip,
    /// The last of those within the window is pushed.
    #[default]
    Once,
    /// Each of those within the window is pushed.
    All,
}

/// The ticks of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// Those of a cron line in a time zone.
    Cron(Box<CronLine>),
    /// The multiples of a span since the unix epoch; 1 s to 365 days.
    Every(Duration),
}

/// Why values make no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The name.
    #[error(
        "{0:?} is no name of a schedule; allowed are 1 to 64 letters, digits, '.', '_' and '-'"
    )]
    Name(String),
    /// The cron line cannot be read.
    #[error("{line:?} is no cron line: {reason}")]
    Cron {
        /// The line as given.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cron line can be read and means no time at all.
    #[error("the cron line {0:?} never fires: no such day is in any year")]
    NeverFires(String),
    /// The time zone.
    #[error("{0:?} is no time zone of the IANA database")]
    Zone(String),
    /// The span between two ticks.
    #[error("`every` is {found}; it must be from 1s to 365d", found = format_duration(*.0))]
    Every(Duration),
}

impl When {
    /// Reads a cron line: five fields, six with seconds in front, or a nickname such as `@daily`;
    /// `zone` is a name of the IANA database, such as `Asia/Shanghai`.
    ///
    /// # Errors
    /// [`ScheduleError`] if the line cannot be read or never fires, or the zone is unknown.
    pub fn cron(line: &str, zone: &str) -> Result<Self, ScheduleError> {
        Ok(Self::Cron(Box::new(CronLine::new(line, zone)?)))
    }

    /// Checks a span between two ticks.
    ///
    /// # Errors
    /// [`ScheduleError::Every`] if it is below a second or above 365 days.
    pub fn every(span: Duration) -> Result<Self, ScheduleError> {
        if EVERY_RANGE.contains(&span) {
            Ok(Self::Every(span))
        } else {
            Err(ScheduleError::Every(span))
        }
    }

    /// The first tick after `unix_ms`, not at it; `None` beyond the year 4999.
    pub fn next_after(&self, unix_ms: u64) -> Option<u64> {
        match self {
            Self::Cron(line) => line.next_after(unix_ms),
            Self::Every(span) => {
                let span_ms = u64::try_from(span.as_millis()).ok()?;
                unix_ms.checked_div(span_ms)?.checked_add(1)?.checked_mul(span_ms)
            }
        }
    }

    /// The ticks after `after_ms` up to and with `until_ms`, earliest first, `max` at most.
    pub fn ticks_between(&self, after_ms: u64, until_ms: u64, max: usize) -> Vec<u64> {
        let first = self.next_after(after_ms);
        std::iter::successors(first, |tick| self.next_after(*tick))
            .take_while(|tick| *tick <= until_ms)
            .take(max)
            .collect()
    }

    /// What it says, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Cron(line) => line.to_string(),
            Self::Every(span) => format!("every {}", format_duration(*span)),
        }
    }
}

/// Checks the name of a schedule: 1 to 64 of `A-Z a-z 0-9 . _ -`.
///
/// # Errors
/// [`ScheduleError::Name`] if it has another form.
pub fn check_name(name: &str) -> Result<(), ScheduleError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(ScheduleError::Name(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ticks_at_multiples_of_its_span() {
        let when = When::every(Duration::from_secs(300)).unwrap();
        assert_eq!(when.next_after(0), Some(300_000));
        assert_eq!(when.next_after(299_999), Some(300_000));
        assert_eq!(when.ticks_between(300_000, 1_000_000, 9), [600_000, 900_000]);
        assert_eq!(when.next_after(u64::MAX), None);
        assert_eq!(when.describe(), "every 5m");
        for span in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(31_536_001)] {
            assert_eq!(When::every(span), Err(ScheduleError::Every(span)));
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        for name in ["nightly", "a.b_c-9", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", "two words", "a:b", "ä", &"x".repeat(65)] {
            assert_eq!(check_name(name), Err(ScheduleError::Name(name.to_owned())));
        }
    }
}
