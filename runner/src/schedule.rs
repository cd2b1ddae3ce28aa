//! Schedules: the ticks of a `[[schedules]]` entry and the job that each tick pushes.
//!
//! The code is pure: the time is passed in. A tick is a Unix time in ms that depends only on the entry, so
//! all runners compute the same ticks.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{TopicName, format_duration};

mod cron_line;

pub use self::cron_line::{CronLine, check_zone, zones};

/// The shortest and the longest `every`.
pub const EVERY_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);
/// The longest name of a schedule, in bytes.
const NAME_MAX: usize = 64;

/// One entry of `[[schedules]]`: a job that is pushed at each of its ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Its name, unique in the manifest; see [`check_name`].
    pub name: String,
    /// The topic of its jobs.
    pub topic: TopicName,
    /// Its ticks.
    pub when: When,
    /// The payload of its jobs.
    pub payload: Bytes,
    /// Which ticks are pushed that passed while no runner was up.
    pub missed: Missed,
    /// The age of the oldest missed tick that is pushed; 0 to ten years.
    pub window: Duration,
}

/// Which ticks are pushed that passed while no runner was up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missed {
    /// None.
    Skip,
    /// The last one within the window.
    #[default]
    Once,
    /// Every one within the window.
    All,
}

/// The ticks of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum When {
    /// Those of a cron line in a time zone.
    Cron(Box<CronLine>),
    /// The multiples of an interval since the Unix epoch; 1 s to 365 days.
    Every(Duration),
}

/// Why a schedule is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The name is invalid.
    #[error("{0:?} is not a schedule name; allowed are 1 to 64 letters, digits, '.', '_' and '-'")]
    Name(String),
    /// The cron line is invalid.
    #[error("{line:?} is not a cron line: {reason}")]
    Cron {
        /// The line as given.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The cron line is valid but never fires.
    #[error("the cron line {0:?} never fires: no year has such a day")]
    NeverFires(String),
    /// The time zone is unknown.
    #[error("{0:?} is not a time zone of the IANA database")]
    Zone(String),
    /// The interval is out of range.
    #[error("`every` is {found}; it must be from 1s to 365d", found = format_duration(*.0))]
    Every(Duration),
}

impl When {
    /// Parses a cron line: five fields, six with a leading second, or a nickname such as `@daily`.
    /// `zone` is a name of the IANA database, such as `Asia/Shanghai`.
    ///
    /// # Errors
    /// [`ScheduleError`] if the line is invalid or never fires, or the zone is unknown.
    pub fn cron(line: &str, zone: &str) -> Result<Self, ScheduleError> {
        Ok(Self::Cron(Box::new(CronLine::new(line, zone)?)))
    }

    /// Checks an interval.
    ///
    /// # Errors
    /// [`ScheduleError::Every`] if it is below one second or above 365 days.
    pub fn every(span: Duration) -> Result<Self, ScheduleError> {
        if EVERY_RANGE.contains(&span) {
            Ok(Self::Every(span))
        } else {
            Err(ScheduleError::Every(span))
        }
    }

    /// The first tick after, and not at, `unix_ms`; `None` beyond the year 4999.
    pub fn next_after(&self, unix_ms: u64) -> Option<u64> {
        match self {
            Self::Cron(line) => line.next_after(unix_ms),
            Self::Every(span) => {
                let span_ms = u64::try_from(span.as_millis()).ok()?;
                unix_ms.checked_div(span_ms)?.checked_add(1)?.checked_mul(span_ms)
            }
        }
    }

    /// The ticks after `after_ms` up to and including `until_ms`, earliest first, at most `max`.
    pub fn ticks_between(&self, after_ms: u64, until_ms: u64, max: usize) -> Vec<u64> {
        let first = self.next_after(after_ms);
        std::iter::successors(first, |tick| self.next_after(*tick))
            .take_while(|tick| *tick <= until_ms)
            .take(max)
            .collect()
    }

    /// A readable form.
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
    fn every_ticks_at_multiples_of_its_interval() {
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
