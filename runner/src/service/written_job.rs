//! A job as people and programs write it in JSON: a line of a file for `duebox push --jobs`, or a body
//! over HTTP. It is checked whole before anything is pushed; a payload stays as it was written.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytesize::ByteSize;
use duebox_job::{JobId, Options, parse_duration};
use duebox_queue::{Due, NewJob};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::due::due;
use super::schema::{DurationText, IdText, JobOptions};

/// A job as it is written. All of it may be left out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenJob<'a> {
    /// Its id, unique among the live jobs of its topic; without it one is made, in the order of time.
    #[schema(value_type = Option<IdText>)]
    id: Option<String>,
    /// How long from now it falls due, such as `30m`; without `in` and `at` the delay of its topic.
    #[serde(rename = "in")]
    #[schema(value_type = Option<DurationText>)]
    delay: Option<String>,
    /// When it falls due: RFC 3339 with a zone or an offset, or unix ms; to come, and within ten years.
    #[schema(value_type = Option<Object>)]
    at: Option<serde_json::Value>,
    /// What its handler gets: a text as its bytes, any other JSON as it is written.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The same in base64, for bytes that are no text.
    payload_base64: Option<String>,
    /// What it sets over its topic.
    #[serde(borrow)]
    #[schema(value_type = Option<JobOptions>)]
    options: Option<&'a RawValue>,
}

/// What its topic says of a job that leaves it out, and how much it may bring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The delay of the topic.
    pub(crate) delay: Duration,
    /// The longest payload, in bytes.
    pub(crate) payload_max: usize,
}

/// Why what is written is no job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoJob {
    /// The field that is at fault, if it is one.
    pub(crate) field: Option<&'static str>,
    /// What is wrong, for people.
    pub(crate) why: String,
}

impl NoJob {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field: Some(field), why: why.into() }
    }
}

impl<'a> WrittenJob<'a> {
    /// Reads a JSON object.
    pub(crate) fn read(json: &'a [u8]) -> Result<Self, NoJob> {
        // Serde would read a list as the fields in their order.
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(NoJob { field: None, why: "a job is a JSON object".to_owned() });
        }
        serde_json::from_slice(json).map_err(|error| NoJob { field: None, why: error.to_string() })
    }

    /// The job that it stands for. One without an id gets `id`, or a made one.
    pub(crate) fn job(self, frame: Frame, id: Option<&JobId>) -> Result<NewJob, NoJob> {
        let payload = self.payload()?;
        if payload.len() > frame.payload_max {
            return Err(NoJob::new("payload", payload_too_long(frame.payload_max)));
        }
        let id = match (self.id, id) {
            (Some(id), _) => JobId::new(id).map_err(|error| NoJob::new("id", error.to_string()))?,
            (None, Some(id)) => id.clone(),
            (None, None) => JobId::generate(),
        };
        let options = self.options.map_or("", RawValue::get);
        let options = Options::from_json(options.as_bytes())
            .map_err(|why| NoJob::new("options", format!("the options cannot be read: {why}")))?;
        let due = due_of(self.delay.as_deref(), self.at.as_ref(), frame.delay)?;
        Ok(NewJob { id, due, payload, options })
    }

    /// A text as its bytes, any other JSON as it is written.
    fn payload(&self) -> Result<Bytes, NoJob> {
        match (self.payload.map(RawValue::get), &self.payload_base64) {
            (Some(_), Some(_)) => {
                Err(NoJob::new("payload", "it has both payload and payload_base64; keep one"))
            }
            (None, None) => Ok(Bytes::new()),
            (None, Some(base64)) => match STANDARD.decode(base64) {
                Ok(bytes) => Ok(Bytes::from(bytes)),
                Err(error) => {
                    let why = format!("payload_base64 is no base64: {error}");
                    Err(NoJob::new("payload_base64", why))
                }
            },
            (Some(json), None) => bytes_of_json(json),
        }
    }
}

/// A text as its bytes, any other JSON as it is written.
pub(crate) fn bytes_of_json(json: &str) -> Result<Bytes, NoJob> {
    if !json.starts_with('"') {
        return Ok(Bytes::copy_from_slice(json.as_bytes()));
    }
    let text: String =
        serde_json::from_str(json).map_err(|error| NoJob::new("payload", error.to_string()))?;
    Ok(Bytes::from(text))
}

/// What is said of a payload that is too long.
pub(crate) fn payload_too_long(max: usize) -> String {
    let limit = ByteSize(max as u64).display().iec();
    format!("the payload is longer than {limit}, the limit of this topic's payloads")
}

fn due_of(
    delay: Option<&str>,
    at: Option<&serde_json::Value>,
    topic_delay: Duration,
) -> Result<Due, NoJob> {
    let delay = delay.map(parse_duration).transpose();
    let delay = delay.map_err(|error| NoJob::new("in", error.to_string()))?;
    let at = match at {
        None => None,
        Some(serde_json::Value::String(time)) => Some(time.clone()),
        Some(serde_json::Value::Number(ms)) => Some(ms.to_string()),
        Some(other) => {
            let why = format!("at is {other}; write a time as text, or unix ms");
            return Err(NoJob::new("at", why));
        }
    };
    if delay.is_some() && at.is_some() {
        return Err(NoJob::new("at", "it has both in and at; keep one"));
    }
    due(delay, at.as_deref(), topic_delay, Timestamp::now())
        .map_err(|bad| NoJob::new("at", bad.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { delay: Duration::ZERO, payload_max: 30 };

    #[test]
    fn a_payload_is_text_or_json_as_it_is_written() {
        for (line, bytes) in [
            (r#"{}"#, &b""[..]),
            (r#"{"payload":"a\nb"}"#, b"a\nb"),
            (r#"{"payload":{"b": 1.50,"a":[]}}"#, br#"{"b": 1.50,"a":[]}"#),
            (r#"{"payload":12345678901234567890123}"#, b"12345678901234567890123"),
            (r#"{"payload_base64":"/wA="}"#, b"\xff\x00"),
        ] {
            let job = WrittenJob::read(line.as_bytes()).unwrap().job(FRAME, None).unwrap();
            assert_eq!(job.payload, bytes, "{line}");
        }
    }

    #[test]
    fn what_is_no_job_says_which_field_is_at_fault() {
        for (line, field) in [
            ("[]", None),
            ("{", None),
            (r#"{"speed":1}"#, None),
            (r#"{"id":""}"#, Some("id")),
            (r#"{"in":"soon"}"#, Some("in")),
            (r#"{"at":true}"#, Some("at")),
            (r#"{"in":"1s","at":1}"#, Some("at")),
            (r#"{"payload":1,"payload_base64":""}"#, Some("payload")),
            (r#"{"payload":"0123456789012345678901234567890"}"#, Some("payload")),
            (r#"{"payload_base64":"?"}"#, Some("payload_base64")),
            (r#"{"options":{"speed":1}}"#, Some("options")),
        ] {
            let refused = WrittenJob::read(line.as_bytes()).and_then(|job| job.job(FRAME, None));
            assert_eq!(refused.unwrap_err().field, field, "{line}");
        }
    }

    #[test]
    fn an_id_of_its_own_beats_the_one_that_is_given() {
        let given = JobId::new("given").unwrap();
        let id = |json: &str| {
            WrittenJob::read(json.as_bytes()).unwrap().job(FRAME, Some(&given)).unwrap().id
        };
        assert_eq!(id("{}"), given);
        assert_eq!(id(r#"{"id":"own"}"#), JobId::new("own").unwrap());
    }
}
