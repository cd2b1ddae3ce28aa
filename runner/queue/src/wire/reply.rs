//! Decodes replies. A reply of an unexpected shape is an error that shows it.

use bytes::Bytes;
use redis::Value;

use crate::error::QueueError;

pub(crate) fn unexpected(value: &Value) -> QueueError {
    let mut shown = format!("{value:?}");
    shown.truncate(shown.floor_char_boundary(200));
    QueueError::BadReply(shown)
}

/// An array's elements.
pub(crate) fn array(value: Value) -> Result<Vec<Value>, QueueError> {
    match value {
        Value::Array(values) => Ok(values),
        other => Err(unexpected(&other)),
    }
}

/// The bytes of a string, not copied.
pub(crate) fn bytes(value: Value) -> Result<Bytes, QueueError> {
    match value {
        Value::BulkString(bytes) => Ok(Bytes::from(bytes)),
        Value::SimpleString(text) => Ok(Bytes::from(text)),
        other => Err(unexpected(&other)),
    }
}

/// A string as text.
pub(crate) fn text(value: &Value) -> Result<&str, QueueError> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| unexpected(value)),
        Value::SimpleString(text) => Ok(text),
        other => Err(unexpected(other)),
    }
}

/// A count.
pub(crate) fn count(value: &Value) -> Result<u64, QueueError> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected(value)),
        other => Err(unexpected(other)),
    }
}

/// A score as a whole number, at least 0. A score that was written by hand may be anything.
pub(crate) fn score(text: &str) -> u64 {
    text.parse::<f64>().map_or(0, |score| score.max(0.0) as u64)
}

/// A score, or an empty string for none.
pub(crate) fn optional_score(value: &Value) -> Result<Option<u64>, QueueError> {
    let text = text(value)?;
    Ok(if text.is_empty() { None } else { Some(score(text)) })
}

/// The JSON kept with an ended job; text that is not JSON becomes a JSON string.
pub(crate) fn info_value(info: &[u8]) -> serde_json::Value {
    serde_json::from_slice(info)
        .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(info).into_owned()))
}

/// The reply to TIME, in unix ms.
pub(crate) fn read_time(time: Value) -> Result<u64, QueueError> {
    Ok(read_time_us(time)? / 1_000)
}

/// The reply to TIME, in µs since the epoch.
pub(crate) fn read_time_us(time: Value) -> Result<u64, QueueError> {
    let fields = array(time)?;
    let [seconds, micros] = fields.as_slice() else {
        return Err(unexpected(&Value::Array(fields)));
    };
    let seconds = score(text(seconds)?);
    Ok(seconds.saturating_mul(1_000_000).saturating_add(score(text(micros)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_all_bounds_is_the_last_one() {
        let time = |seconds: &str| {
            let field = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            read_time_us(Value::Array(vec![field(seconds), field("7")])).unwrap()
        };
        assert_eq!(time("1763740800"), 1_763_740_800_000_007);
        assert_eq!(time("1e300"), u64::MAX);
        assert_eq!(time("-1"), 7);
    }
}
