//! A cron line in a time zone, and its ticks. A line that never fires is refused.
//!
//! croner parses lines and walks the calendar; jiff knows the time zones. This file adds error messages that
//! name the invalid field, and continues a search that fails at a clock change.

use std::fmt;

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::ScheduleError;

/// The time from which a new line must have a tick: 2026-01-01. The calendar repeats, so a line without
/// one never fires.
const ASKED_FROM: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// The clock changes of a zone after which a failed search is repeated.
const CLOCK_CHANGES_MAX: usize = 4;
/// The fields of a cron line and their values.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day", "1 to 31, or L"),
    ("month", "1 to 12, or jan to dec"),
    ("weekday", "0 to 7, or sun to sat"),
];

/// A cron line that fires at least once, with its time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct CronLine {
    line: String,
    cron: Cron,
    zone: TimeZone,
}

impl CronLine {
    /// Parses a line: five fields, six with a leading second, or a nickname such as `@daily`. `zone` is a
    /// name of the IANA database.
    pub(super) fn new(line: &str, zone: &str) -> Result<Self, ScheduleError> {
        let cron = parse(line).map_err(|error| ScheduleError::Cron {
            line: line.to_owned(),
            reason: reason_of(line, &error),
        })?;
        let zone = find_zone(zone)?;
        let cron = Self { line: line.trim().to_owned(), cron, zone };
        match cron.search(ASKED_FROM, false) {
            Some(_) => Ok(cron),
            None => Err(ScheduleError::NeverFires(line.to_owned())),
        }
    }

    /// The line as written.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Its time zone.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    pub(super) fn next_after(&self, unix_ms: u64) -> Option<u64> {
        let from = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
        // A search fails in a gap of many hours, such as a zone's move across the date line. It is
        // repeated after the gap.
        let after_gap = || {
            let changes = self.zone.following(from).take(CLOCK_CHANGES_MAX);
            changes.into_iter().find_map(|change| self.search(change.timestamp(), true))
        };
        self.search(from, false).or_else(after_gap)
    }

    fn search(&self, from: Timestamp, inclusive: bool) -> Option<u64> {
        let from = from.to_zoned(self.zone.clone());
        let tick = self.cron.find_next_occurrence(&from, inclusive).ok()?;
        u64::try_from(tick.timestamp().as_millisecond()).ok()
    }
}

impl fmt::Display for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.line, self.zone.iana_name().unwrap_or("UTC"))
    }
}

/// A zone of the IANA database.
fn find_zone(name: &str) -> Result<TimeZone, ScheduleError> {
    let found = TimeZone::get(name).ok().filter(|found| !found.is_unknown());
    found.ok_or_else(|| ScheduleError::Zone(name.to_owned()))
}

/// Checks the name of a time zone.
///
/// # Errors
/// [`ScheduleError::Zone`] if it is unknown.
pub fn check_zone(name: &str) -> Result<(), ScheduleError> {
    find_zone(name).map(drop)
}

/// The names of all time zones.
pub fn zones() -> Vec<String> {
    jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect()
}

fn parse(line: &str) -> Result<Cron, CronError> {
    let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
    parser.build().parse(line)
}

/// What is wrong with a line that croner refused with `error`.
fn reason_of(line: &str, error: &CronError) -> String {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if line.trim_start().starts_with('@') {
        return "the nicknames are @yearly, @monthly, @weekly, @daily and @hourly".to_owned();
    }
    if !(5..=6).contains(&fields.len()) {
        return format!(
            "it has {} fields; write five (minute hour day month weekday), or six with a leading second",
            fields.len()
        );
    }
    let names = &FIELDS[FIELDS.len() - fields.len()..];
    let is_bad = |at: usize| {
        let mut alone = vec!["*"; fields.len()];
        alone[at] = fields[at];
        parse(&alone.join(" ")).is_err()
    };
    match (0..fields.len()).find(|at| is_bad(*at)) {
        Some(at) => {
            let (name, range) = names[at];
            format!(
                "the {name} is {:?}; write {range}, as a value, a list, a range or a step",
                fields[at]
            )
        }
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::When;

    fn ms(time: &str) -> u64 {
        u64::try_from(time.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    /// The first ticks of a line after a time, as UTC.
    fn ticks(line: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let when = When::cron(line, zone).unwrap();
        let ticks = when.ticks_between(ms(after), u64::MAX, count);
        let text = |tick| Timestamp::from_millisecond(i64::try_from(tick).unwrap()).unwrap();
        ticks.into_iter().map(|tick| text(tick).to_string()).collect()
    }

    #[test]
    fn a_tick_is_after_the_time_asked_for_and_not_at_it() {
        let when = When::cron("0 3 * * *", "UTC").unwrap();
        let (tick, next) = (ms("2026-11-21T03:00:00Z"), ms("2026-11-22T03:00:00Z"));
        assert_eq!(when.next_after(tick - 1), Some(tick));
        assert_eq!(when.next_after(tick), Some(next));
        assert_eq!(when.next_after(tick + 1), Some(next));
        assert_eq!(when.ticks_between(tick - 1, next, 9), [tick, next]);
        assert_eq!(when.ticks_between(tick, next - 1, 9), [0; 0]);
        assert_eq!(when.ticks_between(tick - 1, next, 1), [tick]);
        assert_eq!(when.next_after(u64::MAX), None);
    }

    #[test]
    fn a_zone_without_summer_time_has_a_constant_offset() {
        assert_eq!(
            ticks("0 3 * * *", "Asia/Shanghai", "2026-11-21T00:00:00Z", 2),
            ["2026-11-21T19:00:00Z", "2026-11-22T19:00:00Z"]
        );
    }

    /// On 2026-03-29 the clocks of Berlin go from 02:00 to 03:00, at 01:00 UTC.
    #[test]
    fn in_the_gap_of_spring_a_fixed_time_fires_right_after_it() {
        let berlin = |line, count| ticks(line, "Europe/Berlin", "2026-03-28T12:00:00Z", count);
        assert_eq!(berlin("30 2 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]);
        assert_eq!(berlin("0 3 * * *", 2), ["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]);
        let half_hours = ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:29:59Z", 3);
        assert_eq!(
            half_hours,
            ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
        );
        assert_eq!(berlin("*/30 2 * * *", 1), ["2026-03-30T00:00:00Z"]);
    }

    /// On 2026-10-25 the clocks of Berlin go from 03:00 back to 02:00, at 01:00 UTC.
    #[test]
    fn in_the_fold_of_autumn_a_fixed_time_fires_once_and_a_pattern_goes_on() {
        let berlin = |line, count| ticks(line, "Europe/Berlin", "2026-10-24T22:00:00Z", count);
        assert_eq!(berlin("30 2 * * *", 2), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let hours = ["2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"];
        assert_eq!(berlin("0 * * * *", 3), hours);
    }

    /// Samoa had no 2011-12-30: it moved over the date line.
    #[test]
    fn a_day_that_a_zone_skips_does_not_end_a_schedule() {
        assert_eq!(
            ticks("0 12 * * *", "Pacific/Apia", "2011-12-28T00:00:00Z", 3),
            ["2011-12-28T22:00:00Z", "2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z"]
        );
    }

    #[test]
    fn a_leap_day_comes_every_fourth_year() {
        assert_eq!(
            ticks("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2),
            ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
        );
        assert_eq!(ticks("0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
    }

    #[test]
    fn seconds_names_and_nicknames_are_read() {
        let after = "2026-11-21T00:00:00Z";
        assert_eq!(ticks("*/20 * * * * *", "UTC", after, 1), ["2026-11-21T00:00:20Z"]);
        assert_eq!(ticks("0 9 * * mon-fri", "UTC", after, 1), ["2026-11-23T09:00:00Z"]);
        assert_eq!(ticks("0 0 L * *", "UTC", after, 1), ["2026-11-30T00:00:00Z"]);
        assert_eq!(ticks("@hourly", "UTC", after, 1), ["2026-11-21T01:00:00Z"]);
    }

    #[test]
    fn an_invalid_line_is_refused_with_the_reason() {
        for (line, zone, why) in [
            ("", "UTC", "it has 0 fields"),
            ("* * *", "UTC", "it has 3 fields"),
            ("* * * * * * 2030", "UTC", "it has 7 fields"),
            ("61 * * * *", "UTC", "the minute is \"61\"; write 0 to 59"),
            ("*/0 * * * *", "UTC", "the minute is"),
            ("0 x * * *", "UTC", "the hour is \"x\""),
            ("0 0 0 32 * *", "UTC", "the day is"),
            ("@reboot", "UTC", "nicknames"),
            ("0 0 30 2 *", "UTC", "never fires"),
            ("0 0 31 4,6,9,11 *", "Asia/Shanghai", "never fires"),
            ("@daily", "Mars/Olympus", "Mars/Olympus"),
            ("@daily", "", "not a time zone"),
            ("@daily", "Etc/Unknown", "not a time zone"),
        ] {
            let error = When::cron(line, zone).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_accepted_or_refused(line in "[-0-9*,/#LW?+@ A-Zaä]{0,24}") {
            if let Ok(when) = When::cron(&line, "Europe/Berlin") {
                prop_assert!(when.next_after(1_767_225_600_000) > Some(1_767_225_600_000));
            }
        }

        /// Minute by minute through a week in which the clocks of Berlin change.
        #[test]
        fn a_pattern_fires_at_every_minute_whose_clock_it_matches(
            step in 1i8..60, first in 0i8..24, hours in 0i8..24, spring in any::<bool>(),
        ) {
            let last = (first + hours).min(23);
            let line = CronLine::new(&format!("*/{step} {first}-{last} * * *"), "Europe/Berlin").unwrap();
            let from = ms(if spring { "2026-03-26T00:00:00Z" } else { "2026-10-22T00:00:00Z" });
            let minutes = (1..7 * 1_440).map(|minute| from + minute * 60_000);
            let matches = |at: &u64| {
                let at = Timestamp::from_millisecond(i64::try_from(*at).unwrap()).unwrap();
                let clock = at.to_zoned(line.zone().clone());
                clock.minute() % step == 0 && (first..=last).contains(&clock.hour())
            };
            let wanted: Vec<u64> = minutes.filter(matches).collect();
            let until = from + (7 * 1_440 - 1) * 60_000;
            let when = When::Cron(Box::new(line.clone()));
            prop_assert_eq!(when.ticks_between(from, until, usize::MAX), wanted);
        }

        #[test]
        fn ticks_do_not_depend_on_the_start_of_the_search(
            from in 1_700_000_000_000u64..2_000_000_000_000, step in 1u64..4_000_000,
            line in prop::sample::select(vec!["*/7 * * * *", "30 2 * * *", "0 */5 * * mon"]),
        ) {
            let when = When::cron(line, "Europe/Berlin").unwrap();
            let tick = when.next_after(from).unwrap();
            prop_assert!(tick > from);
            let later = from + step;
            if later < tick {
                prop_assert_eq!(when.next_after(later), Some(tick));
            } else {
                prop_assert!(when.next_after(later).unwrap() > later);
            }
        }
    }
}
