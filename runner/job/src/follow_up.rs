//! A follow-up job, which a handler asks for. It is pushed if, and only if, its parent is acked.
//! Until then it is stored as JSON in the `outbox` of the parent's topic.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{DELAY_MAX_MS, DUE_MS_RANGE, JobId, Options, TopicName};

/// A job that another job asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct FollowUp {
    /// The topic it is pushed to.
    pub topic: TopicName,
    /// Its id; a live job of this id is left alone.
    pub id: JobId,
    /// When it falls due.
    pub due: FollowUpDue,
    /// The payload, as the handler receives it.
    pub payload: Bytes,
    /// Options that replace those of its topic.
    pub options: Options,
}

/// When a follow-up falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowUpDue {
    /// This long after the ack that committed it, in ms; 0 to ten years.
    AfterMs(u64),
    /// At a unix time in ms, within [`DUE_MS_RANGE`].
    AtMs(u64),
}

impl FollowUpDue {
    /// The unix time in ms, for an ack at `acked_at_ms`.
    pub fn at_ms(self, acked_at_ms: u64) -> u64 {
        match self {
            Self::AfterMs(delay) => acked_at_ms.saturating_add(delay),
            Self::AtMs(at) => at,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: String,
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    due_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    /// For a payload that is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<serde_json::Value>,
}

impl FollowUp {
    /// The form in the outbox; empty for no follow-ups.
    pub fn to_json(follow_ups: &[Self]) -> String {
        if follow_ups.is_empty() {
            return String::new();
        }
        let written: Vec<Written> = follow_ups.iter().map(Self::write).collect();
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads the form in the outbox.
    ///
    /// # Errors
    /// The reason, if the bytes are not follow-ups.
    pub fn from_json(json: &[u8]) -> Result<Vec<Self>, String> {
        let written: Vec<Written> =
            serde_json::from_slice(json).map_err(|error| error.to_string())?;
        written.into_iter().map(Self::read).collect()
    }

    fn write(&self) -> Written {
        let (delay_ms, due_at_ms) = match self.due {
            FollowUpDue::AfterMs(delay) => (Some(delay), None),
            FollowUpDue::AtMs(at) => (None, Some(at)),
        };
        let text = std::str::from_utf8(&self.payload).ok();
        Written {
            topic: self.topic.to_string(),
            id: self.id.to_string(),
            delay_ms,
            due_at_ms,
            payload: text.map(str::to_owned),
            payload_base64: text.is_none().then(|| STANDARD.encode(&self.payload)),
            options: serde_json::to_value(&self.options).ok().filter(|_| !self.options.is_empty()),
        }
    }

    fn read(written: Written) -> Result<Self, String> {
        let due = match (written.delay_ms, written.due_at_ms) {
            (delay, None) if delay.unwrap_or(0) <= DELAY_MAX_MS => {
                FollowUpDue::AfterMs(delay.unwrap_or(0))
            }
            (None, Some(at)) if DUE_MS_RANGE.contains(&at) => FollowUpDue::AtMs(at),
            (delay, at) => return Err(format!("no due time: delay {delay:?}, due at {at:?}")),
        };
        let payload = match (written.payload, written.payload_base64) {
            (text, None) => Bytes::from(text.unwrap_or_default()),
            (None, Some(base64)) => {
                Bytes::from(STANDARD.decode(base64).map_err(|error| error.to_string())?)
            }
            _ => return Err("two payloads".to_owned()),
        };
        let options = written.options.map(|options| options.to_string()).unwrap_or_default();
        Ok(Self {
            topic: TopicName::new(&written.topic).map_err(|error| error.to_string())?,
            id: JobId::new(written.id).map_err(|error| error.to_string())?,
            due,
            payload,
            options: Options::from_json(options.as_bytes()).map_err(|error| error.to_string())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follow_ups_survive_the_outbox() {
        let follow_up = |id: &str, due, payload: &'static [u8]| FollowUp {
            topic: TopicName::new("sms.eu").unwrap(),
            id: JobId::new(id).unwrap(),
            due,
            payload: Bytes::from_static(payload),
            options: Options::default().with_max_attempts(2),
        };
        let all = vec![
            follow_up("42.1", FollowUpDue::AfterMs(0), b"{\"n\":1}"),
            follow_up("42.2", FollowUpDue::AtMs(1_763_740_800_000), b"\xff\x00"),
        ];
        assert_eq!(FollowUp::from_json(FollowUp::to_json(&all).as_bytes()), Ok(all));
        assert_eq!(FollowUp::to_json(&[]), "");
    }

    #[test]
    fn what_is_no_follow_up_says_why() {
        for (json, why) in [
            ("{}", "sequence"),
            (r#"[{"topic":"a b","id":"1"}]"#, "topic name"),
            (r#"[{"topic":"a","id":""}]"#, "empty"),
            (r#"[{"topic":"a","id":"1","due_at_ms":5}]"#, "due time"),
            (r#"[{"topic":"a","id":"1","payload":"x","payload_base64":"eA=="}]"#, "two payloads"),
        ] {
            let error = FollowUp::from_json(json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
    }
}
