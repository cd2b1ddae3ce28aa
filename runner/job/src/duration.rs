//! Durations as text: `250ms`, `30s`, `2m`, `1h30m`, `7d`. Whole numbers with one unit each, in any
//! order. A bare `30` is an error, so that its unit is never guessed.

use std::time::Duration;

use crate::DELAY_MAX_MS;

/// An invalid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow the form.
    #[error(
        "{0:?} is not a duration; write a number with a unit (ms, s, m, h, d), such as \"30s\" or \"1h30m\""
    )]
    Form(String),
    /// The text means more than ten years.
    #[error("{0:?} is longer than ten years")]
    TooLong(String),
}

const UNITS_MS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration of 0 to 10 years.
///
/// # Errors
/// [`DurationError`] if the text has another form or means more than ten years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let form = || DurationError::Form(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(form());
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(form)?;
        let count: u64 = rest[..digits].parse().map_err(|_| form())?;
        rest = &rest[digits..];
        let unit_len = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = &rest[..unit_len];
        let (_, unit_ms) = UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(form)?;
        rest = &rest[unit_len..];
        total_ms = count
            .checked_mul(*unit_ms)
            .and_then(|ms| total_ms.checked_add(ms))
            .filter(|ms| *ms <= DELAY_MAX_MS)
            .ok_or_else(|| DurationError::TooLong(text.to_owned()))?;
    }
    Ok(Duration::from_millis(total_ms))
}

/// Writes a duration in the form that [`parse_duration`] reads, rounded down to milliseconds.
pub fn format_duration(duration: Duration) -> String {
    let mut rest_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, unit_ms) in UNITS_MS.iter().rev() {
        let count = rest_ms / unit_ms;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
            rest_ms %= unit_ms;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up() {
        for (text, ms) in
            [("250ms", 250), ("30s", 30_000), ("1h30m", 5_400_000), ("7d", 604_800_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "30", "s", "1.5s", "-1s", "1 s", "1w", "1s junk", "99999999999999999999s"]
        {
            assert!(matches!(parse_duration(text), Err(DurationError::Form(_))), "{text}");
        }
        assert!(matches!(parse_duration("3651d"), Err(DurationError::TooLong(_))));
        assert!(matches!(parse_duration("9999999999999999d"), Err(DurationError::TooLong(_))));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for ms in [0, 1, 999, 61_000, 90_061_001] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
