//! A follow-up job, which a handler asks for. It is pushed if, and only if, its parent is acked.
//! After the ack it is stored in the `outbox` of the parent's topic until it is pushed.
//!
//! The stored form of several follow-ups is binary-safe, since JSON would write a zero byte as six. Each
//! is a line, and then its payload as it is:
//!
//! ```text
//! 1 5 {"topic":"sms","id":"42.1","delay_ms":0}
//! hello2 0 {"topic":"sms","id":"42.2","delay_ms":0}
//! ```
//!
//! The line has the number of the follow-up in its ack, the bytes of its payload, and the rest as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    DELAY_MAX_MS, DUE_MS_RANGE, IdError, JobId, OptionError, Options, TopicError, TopicName,
};

/// The header of a follow-up that names the job whose ack pushed it, as `topic/id`.
pub const PARENT_HEADER: &str = "duebox-parent";

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

/// Why stored bytes are not follow-ups.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FollowUpError {
    /// A follow-up does not begin with its number and the length of its payload.
    #[error("a follow-up begins with no number and length")]
    NoHead,
    /// The bytes end before a payload does.
    #[error("it is cut short")]
    CutShort,
    /// Its description is not JSON, or not of this form.
    #[error("{reason}")]
    Json {
        /// What the parser said.
        reason: String,
    },
    /// It has two due times, or one that is out of range.
    #[error("no due time: delay {delay_ms:?}, due at {due_at_ms:?}")]
    Due {
        /// The delay in ms, as written.
        delay_ms: Option<u64>,
        /// The unix time in ms, as written.
        due_at_ms: Option<u64>,
    },
    /// It has a payload as text and one as base64.
    #[error("two payloads")]
    TwoPayloads,
    /// Its payload is not base64.
    #[error("its payload is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Its topic is not a topic name.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// Its id is not a job id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Its options cannot be read.
    #[error(transparent)]
    Options(#[from] OptionError),
}

impl From<serde_json::Error> for FollowUpError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json { reason: error.to_string() }
    }
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

/// A follow-up as JSON. The stored form has the payload apart; entries of earlier versions have it here.
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
    /// Names the job that pushes it in the header [`PARENT_HEADER`]. An id that no header can hold, or headers
    /// without room for it, leave it without a name.
    pub fn name_parent(&mut self, topic: &TopicName, id: &JobId) {
        let Ok(id) = std::str::from_utf8(id.as_bytes()) else { return };
        let parent = format!("{topic}/{id}");
        if let Ok(named) = self.options.clone().with_header(PARENT_HEADER, &parent) {
            self.options = named;
        }
    }

    /// Its bytes, about: the payload, the id and the options.
    pub fn bytes(&self) -> usize {
        let headers = self.options.headers().iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        self.payload.len() + self.id.as_bytes().len() + headers + 256
    }

    /// The stored form of the follow-ups of one ack, numbered from 1; empty for none.
    pub fn encode(follow_ups: &[Self]) -> Vec<u8> {
        let payloads: usize = follow_ups.iter().map(|follow_up| follow_up.payload.len()).sum();
        let mut bytes = Vec::with_capacity(payloads + 128 * follow_ups.len());
        for (at, follow_up) in follow_ups.iter().enumerate() {
            let head = serde_json::to_string(&follow_up.head()).unwrap_or_default();
            let line = format!("{} {} {head}\n", at + 1, follow_up.payload.len());
            bytes.extend_from_slice(line.as_bytes());
            bytes.extend_from_slice(&follow_up.payload);
        }
        bytes
    }

    /// Reads the stored form: each follow-up with its number in the ack. The JSON list of earlier
    /// versions is read too.
    ///
    /// # Errors
    /// [`FollowUpError`] if the bytes are not follow-ups.
    pub fn decode(stored: &Bytes) -> Result<Vec<(u64, Self)>, FollowUpError> {
        if stored.first() == Some(&b'[') {
            let list = Self::from_json(stored)?;
            return Ok((1..).zip(list).collect());
        }
        let mut all = Vec::new();
        let mut at = 0;
        while at < stored.len() {
            let rest = &stored[at..];
            let line = rest.iter().position(|byte| *byte == b'\n').map(|end| &rest[..end]);
            let (number, len, head) = line.and_then(read_line).ok_or(FollowUpError::NoHead)?;
            let from = at + line.map_or(0, <[u8]>::len) + 1;
            at = from
                .checked_add(len)
                .filter(|end| *end <= stored.len())
                .ok_or(FollowUpError::CutShort)?;
            let written = serde_json::from_slice(head)?;
            let follow_up = Self { payload: stored.slice(from..at), ..Self::read(written)? };
            all.push((number, follow_up));
        }
        Ok(all)
    }

    /// The whole follow-up as JSON, for people. A payload that is not UTF-8 is in base64.
    pub fn to_json(&self) -> serde_json::Value {
        let text = std::str::from_utf8(&self.payload).ok();
        let written = Written {
            payload: text.map(str::to_owned),
            payload_base64: text.is_none().then(|| STANDARD.encode(&self.payload)),
            ..self.head()
        };
        serde_json::to_value(written).unwrap_or_default()
    }

    /// Reads a JSON list of follow-ups.
    ///
    /// # Errors
    /// [`FollowUpError`] if the bytes are not such a list.
    pub fn from_json(json: &[u8]) -> Result<Vec<Self>, FollowUpError> {
        let written: Vec<Written> = serde_json::from_slice(json)?;
        written.into_iter().map(Self::read).collect()
    }

    /// All but the payload.
    fn head(&self) -> Written {
        let (delay_ms, due_at_ms) = match self.due {
            FollowUpDue::AfterMs(delay) => (Some(delay), None),
            FollowUpDue::AtMs(at) => (None, Some(at)),
        };
        Written {
            topic: self.topic.to_string(),
            id: self.id.to_string(),
            delay_ms,
            due_at_ms,
            payload: None,
            payload_base64: None,
            options: serde_json::to_value(&self.options).ok().filter(|_| !self.options.is_empty()),
        }
    }

    fn read(written: Written) -> Result<Self, FollowUpError> {
        let due = match (written.delay_ms, written.due_at_ms) {
            (delay, None) if delay.unwrap_or(0) <= DELAY_MAX_MS => {
                FollowUpDue::AfterMs(delay.unwrap_or(0))
            }
            (None, Some(at)) if DUE_MS_RANGE.contains(&at) => FollowUpDue::AtMs(at),
            (delay_ms, due_at_ms) => return Err(FollowUpError::Due { delay_ms, due_at_ms }),
        };
        let payload = match (written.payload, written.payload_base64) {
            (text, None) => Bytes::from(text.unwrap_or_default()),
            (None, Some(base64)) => Bytes::from(STANDARD.decode(base64)?),
            _ => return Err(FollowUpError::TwoPayloads),
        };
        let options = written.options.map(|options| options.to_string()).unwrap_or_default();
        Ok(Self {
            topic: TopicName::new(&written.topic)?,
            id: JobId::new(written.id)?,
            due,
            payload,
            options: Options::from_json(options.as_bytes())?,
        })
    }
}

/// The number, the length of the payload, and the JSON of the line before a payload.
fn read_line(line: &[u8]) -> Option<(u64, usize, &[u8])> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let (number, len, head) = (words.next()?, words.next()?, words.next()?);
    let digits = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let whole = |word| std::str::from_utf8(word).ok().filter(|_| digits(word));
    Some((whole(number)?.parse().ok()?, whole(len)?.parse().ok()?, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow_up(id: &str, due: FollowUpDue, payload: &[u8]) -> FollowUp {
        FollowUp {
            topic: TopicName::new("sms.eu").unwrap(),
            id: JobId::new(id).unwrap(),
            due,
            payload: Bytes::copy_from_slice(payload),
            options: Options::default().with_max_attempts(2),
        }
    }

    fn decode(stored: impl Into<Vec<u8>>) -> Result<Vec<(u64, FollowUp)>, FollowUpError> {
        FollowUp::decode(&Bytes::from(stored.into()))
    }

    #[test]
    fn follow_ups_survive_the_outbox() {
        let all = vec![
            follow_up("42.1", FollowUpDue::AfterMs(0), b"{\"n\":1}\n2 2 {}\n"),
            follow_up("42.2", FollowUpDue::AtMs(1_763_740_800_000), b"\xff\x00"),
            follow_up("42.3", FollowUpDue::AfterMs(9), b""),
        ];
        let numbered: Vec<_> = (1..).zip(all.clone()).collect();
        assert_eq!(decode(FollowUp::encode(&all)), Ok(numbered));
        assert_eq!(FollowUp::encode(&[]), b"");
        assert_eq!(decode(""), Ok(Vec::new()));
    }

    #[test]
    fn a_follow_up_names_its_parent_if_a_header_can_hold_it() {
        let orders = TopicName::new("order.close").unwrap();
        let named = |id: &[u8]| {
            let mut child = follow_up("1", FollowUpDue::AfterMs(0), b"");
            child.name_parent(&orders, &JobId::from_redis(id.to_vec()));
            assert_eq!(child.options.max_attempts(), Some(2));
            child.options.headers().get(PARENT_HEADER).cloned()
        };
        assert_eq!(named(b"42").as_deref(), Some("order.close/42"));
        assert_eq!((named(b"\xff"), named(b"a\nb")), (None, None));
    }

    #[test]
    fn any_payload_is_stored_in_its_own_size() {
        for byte in [0, b'\n', b'"', 0xff] {
            let zeros = follow_up("42.1", FollowUpDue::AfterMs(0), &vec![byte; 1 << 20]);
            let stored = FollowUp::encode(&[zeros]).len();
            assert!(stored < (1 << 20) + 200, "byte {byte}: {stored}");
        }
    }

    #[test]
    fn the_list_of_earlier_versions_is_read() {
        let list = r#"[{"topic":"sms.eu","id":"1","delay_ms":0,"payload":"a","options":{"max_attempts":2}},
            {"topic":"sms.eu","id":"2","delay_ms":0,"payload_base64":"/wA=","options":{"max_attempts":2}}]"#;
        let follow_up = |id, payload| follow_up(id, FollowUpDue::AfterMs(0), payload);
        let expected = vec![(1, follow_up("1", b"a")), (2, follow_up("2", b"\xff\x00"))];
        assert_eq!(decode(list), Ok(expected));
    }

    #[test]
    fn json_for_people_has_the_payload() {
        let text = follow_up("1", FollowUpDue::AfterMs(0), b"hi").to_json();
        assert_eq!((text["payload"].as_str(), text["id"].as_str()), (Some("hi"), Some("1")));
        let bytes = follow_up("1", FollowUpDue::AfterMs(0), b"\xff\x00").to_json();
        assert_eq!(bytes["payload_base64"].as_str(), Some("/wA="));
    }

    #[test]
    fn what_is_no_follow_up_says_why() {
        for (stored, why) in [
            ("{}", "number and length"),
            ("1 0 {}", "number and length"),
            ("1 +0 {}\n", "number and length"),
            ("1 9 {}\nshort", "cut short"),
            ("1 18446744073709551615 {}\n", "cut short"),
            ("1 0 {\"topic\":\"a b\",\"id\":\"1\"}\n", "topic name"),
            ("1 0 {\"topic\":\"a\",\"id\":\"\"}\n", "empty"),
            ("1 0 {\"topic\":\"a\",\"id\":\"1\",\"due_at_ms\":5}\n", "due time"),
            ("[{}]", "topic"),
            (r#"[{"topic":"a","id":"1","payload":"x","payload_base64":"eA=="}]"#, "two payloads"),
        ] {
            let error = decode(stored).unwrap_err().to_string();
            assert!(error.contains(why), "{stored}: {error}");
        }
    }
}
