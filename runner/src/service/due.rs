//! The due time of a pushed job, as a delay or a time. Times in the past or too far ahead are
//! refused before anything is stored, by the clock of Redis: the one of this machine may be wrong.

use std::time::Duration;

use duebox_job::{DELAY_MAX_MS, DUE_MS_RANGE};
use duebox_queue::{Due, Queue, QueueError};
use jiff::{Timestamp, Zoned};

use super::value::BadValue;

const TIME_HINT: &str = "write RFC 3339 with a zone or offset, such as 2026-12-24T18:00:00Z or \
                         2026-12-24T18:00[Asia/Shanghai], or unix milliseconds";

/// The due time of a job: the given delay or time, or else the topic's delay.
///
/// # Errors
/// [`BadValue`] if the time is not written as one. [`DueCheck`] then compares it with the clock.
pub(crate) fn due(
    delay: Option<Duration>,
    at: Option<&str>,
    topic_delay: Duration,
) -> Result<Due, BadValue> {
    if let Some(at) = at {
        return parse_time(at).map(Due::At);
    }
    let delay = delay.unwrap_or(topic_delay);
    Ok(if delay.is_zero() { Due::Now } else { Due::In(delay) })
}

/// Checks due times against the clock of Redis.
pub(crate) struct DueCheck {
    /// The clock; `None` if there is no time to compare with it.
    now_ms: Option<u64>,
}

impl DueCheck {
    /// A check of these due times. Reads the clock only if one of them is a time.
    ///
    /// # Errors
    /// [`QueueError`] if Redis does not reply.
    pub(crate) async fn of(
        queue: &Queue,
        mut dues: impl Iterator<Item = Due>,
    ) -> Result<Self, QueueError> {
        let now_ms = match dues.any(|due| matches!(due, Due::At(_))) {
            true => Some(queue.now_ms().await?),
            false => None,
        };
        Ok(Self { now_ms })
    }

    /// Refuses a time in the past, or more than ten years away.
    pub(crate) fn check(&self, due: Due) -> Result<(), BadValue> {
        let (Due::At(at_ms), Some(now_ms)) = (due, self.now_ms) else { return Ok(()) };
        if at_ms < now_ms {
            return Err(BadValue::new(
                format!(
                    "the time {} is in the past (it is {} by the clock of Redis)",
                    time_text(at_ms),
                    time_text(now_ms)
                ),
                "give a time in the future, or omit it to run the job now",
            ));
        }
        if at_ms - now_ms > DELAY_MAX_MS {
            return Err(BadValue::new(
                format!("the time {} is more than ten years away", time_text(at_ms)),
                "give a time within ten years",
            ));
        }
        Ok(())
    }
}

/// A time for people.
fn time_text(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms"), |time| time.to_string())
}

/// Reads a time as unix milliseconds.
fn parse_time(text: &str) -> Result<u64, BadValue> {
    if let Ok(number) = text.parse::<i64>() {
        return in_range(number).ok_or_else(|| {
            BadValue::new(
                format!("the time {text} is not a unix time in milliseconds"),
                "unix milliseconds have 13 digits today (seconds have 10, microseconds 16)",
            )
        });
    }
    let instant = text.parse::<Timestamp>();
    let instant = instant
        .or_else(|error| text.parse::<Zoned>().map(|zoned| zoned.timestamp()).map_err(|_| error));
    let instant = instant
        .map_err(|error| BadValue::new(format!("{text:?} is not a time: {error}"), TIME_HINT))?;
    in_range(instant.as_millisecond()).ok_or_else(|| {
        let message = format!("the time {text} is in the past or more than ten years away");
        BadValue::new(message, "give a time within ten years")
    })
}

fn in_range(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok().filter(|ms| DUE_MS_RANGE.contains(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<u64> {
        let check = DueCheck { now_ms: Some(1_795_262_400_000) };
        match due(None, Some(text), Duration::ZERO) {
            Ok(Due::At(ms)) => check.check(Due::At(ms)).ok().map(|()| ms),
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
        let minute = Duration::from_secs(60);
        assert_eq!(due(None, None, Duration::ZERO).unwrap(), Due::Now);
        assert_eq!(due(None, None, minute).unwrap(), Due::In(minute));
        assert_eq!(due(Some(Duration::ZERO), None, minute).unwrap(), Due::Now);
    }
}
