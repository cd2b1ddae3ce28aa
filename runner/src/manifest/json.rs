//! A value of the manifest as JSON text, for what a handler reads: texts as they are, the rest as
//! JSON, with `${VAR}` replaced in every text inside it. Payloads that a manifest holds are such values.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use super::reader::{ManifestReader, integer_of, kind};
use super::section::{Section, Value};

/// A text as it is, anything else as JSON.
pub(super) fn read_as_text(
    reader: &ManifestReader<'_>,
    name: &str,
    value: &Value<'_>,
) -> Option<String> {
    match value.get_ref() {
        DeValue::String(_) => reader.text(name, value),
        _ => Some(json_of(reader, name, value)?.to_string()),
    }
}

/// The payload of a job: a text, or a table or a list, which becomes JSON; nothing is the empty text.
pub(super) fn read_payload(section: &Section<'_>) -> Option<Bytes> {
    let Some(value) = section.value("payload") else { return Some(Bytes::new()) };
    let reader = section.reader();
    if !matches!(value.get_ref(), DeValue::String(_) | DeValue::Table(_) | DeValue::Array(_)) {
        let title =
            format!("`payload` is {}; it must be a text, a table or a list", kind(value.get_ref()));
        let hint = "put it in quotes; a table or a list becomes JSON";
        reader.refuse(Some(value.span()), title, hint);
        return None;
    }
    read_as_text(reader, "payload", value).map(Bytes::from)
}

/// A value as JSON, with `${VAR}` replaced in every text inside it.
fn json_of(reader: &ManifestReader<'_>, name: &str, value: &Value<'_>) -> Option<Json> {
    match value.get_ref() {
        DeValue::String(_) => reader.text(name, value).map(Json::String),
        DeValue::Boolean(truth) => Some(Json::Bool(*truth)),
        DeValue::Datetime(time) => Some(Json::String(time.to_string())),
        DeValue::Integer(integer) => {
            let number = integer_of(integer).and_then(|number| i64::try_from(number).ok());
            number.map(Json::from).or_else(|| refuse_number(reader, name, value))
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            number.map(Json::Number).or_else(|| refuse_number(reader, name, value))
        }
        DeValue::Array(entries) => {
            let entries: Vec<Option<Json>> =
                entries.iter().map(|entry| json_of(reader, name, entry)).collect();
            entries.into_iter().collect::<Option<_>>().map(Json::Array)
        }
        DeValue::Table(entries) => {
            let entry = |(key, value): (&Spanned<Cow<'_, str>>, &Value<'_>)| {
                Some((key.get_ref().to_string(), json_of(reader, key.get_ref(), value)?))
            };
            let entries: Vec<Option<(String, Json)>> = entries.iter().map(entry).collect();
            entries.into_iter().collect::<Option<_>>().map(Json::Object)
        }
    }
}

fn refuse_number(reader: &ManifestReader<'_>, name: &str, value: &Value<'_>) -> Option<Json> {
    let title = format!("`{name}`: this number cannot be written as JSON");
    reader.refuse(Some(value.span()), title, "give a finite number of at most 64 bits, or a text");
    None
}
