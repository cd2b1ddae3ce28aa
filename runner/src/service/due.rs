//! The due time of a pushed job, as a delay or a time. Times in the past or too far ahead are
//! refused before anything is stored.

use std::time::Duration;

use duebox_job::{DELAY_MAX_MS, DUE_MS_RANGE};
use duebox_queue::Due;
use jiff::{Timestamp, Zoned};

use super::value::BadValue;

const TIME_HINT: &str = "write RFC 3339 with a zone or offset, such as 2026-12-24T18:00:00Z or \
                         2026-12-24T18:00[Asia/Shanghai], or unix milliseconds";

/// The due time of a job: the given delay or time, or else the topic's delay.
///
/// # Errors
/// [`BadValue`] if the time is invalid, in the past, or more than ten years away.
pub(crate) fn due(
    delay: Option<Duration>,
    at: Option<&str>,
    topic_delay: Duration,
    now: Timestamp,
) -> Result<Due, BadValue> {
    if let Some(at) = at {
        return Ok(Due::At(check_time(at, parse_time(at)?, now)?));
    }
    let delay = delay.unwrap_or(topic_delay);
    Ok(if delay.is_zero() { Due::Now } else { Due::In(delay) })
}

/// Reads a time as unix milliseconds.
fn parse_time(text: &str) -> Result<i64, BadValue> {
    if let Ok(number) = text.parse::<i64>() {
        let in_range = u64::try_from(number).is_ok_and(|ms| DUE_MS_RANGE.contains(&ms));
        if !in_range {
            return Err(BadValue::new(
                format!("the time {text} is not a unix time in milliseconds"),
                "unix milliseconds have 13 digits today (seconds have 10, microseconds 16)",
            ));
        }
        return Ok(number);
    }
    let instant = text.parse::<Timestamp>();
    let instant = instant
        .or_else(|error| text.parse::<Zoned>().map(|zoned| zoned.timestamp()).map_err(|_| error));
    instant
        .map(Timestamp::as_millisecond)
        .map_err(|error| BadValue::new(format!("{text:?} is not a time: {error}"), TIME_HINT))
}

fn check_time(text: &str, at_ms: i64, now: Timestamp) -> Result<u64, BadValue> {
    let now_ms = now.as_millisecond();
    if at_ms < now_ms {
        return Err(BadValue::new(
            format!("the time {text} is in the past (it is {now} now)"),
            "give a time in the future, or omit it to run the job now",
        ));
    }
    let far = i64::try_from(DELAY_MAX_MS).unwrap_or(i64::MAX);
    match u64::try_from(at_ms) {
        Ok(ms) if at_ms - now_ms <= far && DUE_MS_RANGE.contains(&ms) => Ok(ms),
        _ => Err(BadValue::new(
            format!("the time {text} is more than ten years away"),
            "give a time within ten years",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<u64> {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        match due(None, Some(text), Duration::ZERO, now) {
            Ok(Due::At(ms)) => Some(ms),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    }

    #[test]
    fn future_times_are_read() {
        assert_eq!(at("2026-11-21T12:00:01Z"), Some(1_795_262_401_000));
        assert_eq!(at("2026-11-21T13:00:01+01:00"), Some(1_795_262_401_000));
        assert_eq!(at("2026-11-21T12:00:01.5+00:00[UTC]"), Some(1_795_262_401_500));
        assert_eq!(at("1795262401000"), Some(1_795_262_401_000));
    }

    #[test]
    fn past_distant_and_invalid_times_are_refused() {
        for text in [
            "2026-11-21T11:59:59Z",
            "1795262399000",
            "1795262401",
            "1795262401000000",
            "2036-11-21T12:00:00Z",
            "9999-01-01T00:00:00Z",
            "2026-11-21T12:00:01",
            "-1",
            "tomorrow",
            "",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn a_delay_overrides_the_topics_delay() {
        let now = Timestamp::UNIX_EPOCH;
        let minute = Duration::from_secs(60);
        assert_eq!(due(None, None, Duration::ZERO, now).unwrap(), Due::Now);
        assert_eq!(due(None, None, minute, now).unwrap(), Due::In(minute));
        assert_eq!(due(Some(Duration::ZERO), None, minute, now).unwrap(), Due::Now);
    }
}
