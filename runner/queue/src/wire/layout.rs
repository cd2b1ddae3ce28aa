//! The version of the layout: what keys hold, and what they mean. It is stored once for each prefix, so that
//! no program works on keys that a newer one has written in a way that it does not know.

use redis::Value;

use crate::error::QueueError;
use crate::wire::constants::LAYOUT;

/// Fails if the stored version of the layout is not one that this program knows. None may be stored.
pub(crate) fn check_layout(stored: &Value) -> Result<(), QueueError> {
    let stored = match stored {
        Value::Nil => return Ok(()),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => format!("{other:?}"),
    };
    match stored.parse::<u64>() {
        Ok(version) if (1..=LAYOUT).contains(&version) => Ok(()),
        _ => Err(QueueError::Layout { stored, known: LAYOUT }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_are_accepted() {
        let stored = |text: &str| check_layout(&Value::BulkString(text.as_bytes().to_vec()));
        assert_eq!(check_layout(&Value::Nil), Ok(()));
        assert_eq!(stored(&LAYOUT.to_string()), Ok(()));
        for unknown in [(LAYOUT + 1).to_string().as_str(), "0", "", "v1"] {
            let error = stored(unknown).unwrap_err();
            assert!(error.to_string().contains(&format!("layout {unknown:?}")), "{error}");
            assert!(!error.is_of_topic() && error.remedy().is_some());
        }
    }
}
