//! Secrets in what is stored or written: each value is replaced by a placeholder, from which a replay on a
//! machine that has the secret restores it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};

/// The shortest secret that is looked for, in bytes. A shorter one would occur everywhere.
const SECRET_MIN: usize = 4;

/// The secrets of a topic.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// Placeholders and values, the longest value first.
    pairs: Vec<(String, Vec<u8>)>,
}

impl Redaction {
    /// The secrets by name: the values of `config` whose names are secrets'.
    pub fn new<'a>(secrets: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut pairs = Vec::new();
        for (name, value) in secrets {
            let encoded = percent_encode(value.as_bytes(), NON_ALPHANUMERIC).to_string();
            let json = serde_json::to_string(value).unwrap_or_default();
            let json = json.trim_matches('"').to_owned();
            for (form, text) in [("", value.clone()), ("_url", encoded), ("_json", json)] {
                let is_known =
                    pairs.iter().any(|(_, known): &(String, Vec<u8>)| *known == text.as_bytes());
                if text.len() >= SECRET_MIN && !is_known {
                    pairs.push((format!("__secret_{name}{form}__"), text.into_bytes()));
                }
            }
        }
        pairs.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self { pairs }
    }

    /// The secrets among the config values of a topic.
    pub fn of_config<T>(config: &BTreeMap<String, String>, secrets: &BTreeMap<String, T>) -> Self {
        Self::new(config.iter().filter(|(name, _)| secrets.contains_key(*name)))
    }

    /// The bytes without the secrets.
    pub fn redact<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let pairs = self.pairs.iter().map(|(mark, value)| (value.as_slice(), mark.as_bytes()));
        pairs.fold(Cow::Borrowed(bytes), |bytes, (from, to)| replace(bytes, from, to))
    }

    /// The text without the secrets.
    pub fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
    }

    /// The bytes with the secrets in place of their placeholders.
    pub fn restore<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let pairs = self.pairs.iter().map(|(mark, value)| (mark.as_bytes(), value.as_slice()));
        pairs.fold(Cow::Borrowed(bytes), |bytes, (from, to)| replace(bytes, from, to))
    }

    /// The text with the secrets in place of their placeholders.
    pub fn restore_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.restore(text.as_bytes())).into_owned()
    }
}

fn replace<'b>(bytes: Cow<'b, [u8]>, from: &[u8], to: &[u8]) -> Cow<'b, [u8]> {
    let next = |bytes: &[u8], start: usize| {
        bytes[start..].windows(from.len()).position(|window| window == from).map(|at| start + at)
    };
    let Some(mut at) = next(&bytes, 0) else { return bytes };
    let (mut replaced, mut start) = (Vec::with_capacity(bytes.len()), 0);
    loop {
        replaced.extend_from_slice(&bytes[start..at]);
        replaced.extend_from_slice(to);
        start = at + from.len();
        match next(&bytes, start) {
            Some(found) => at = found,
            None => break,
        }
    }
    replaced.extend_from_slice(&bytes[start..]);
    Cow::Owned(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_in_each_form_and_restored() {
        let secrets =
            BTreeMap::from([("key".to_owned(), "a b\"c".to_owned()), ("x".into(), "12".into())]);
        let redaction = Redaction::new(&secrets);
        for text in ["?k=a b\"c&n=12", "?k=a%20b%22c", "{\"k\":\"a b\\\"c\"}", "nothing"] {
            let redacted = redaction.redact_text(text);
            assert!(!redacted.contains("a b") && !redacted.contains("%20"), "{redacted}");
            assert_eq!(redaction.restore_text(&redacted), text);
        }
        assert_eq!(redaction.redact(b"\xffa b\"c\xff").as_ref(), b"\xff__secret_key__\xff");
    }
}
