//! Values of the manifest that a handler reads: `config` entries and payloads. A string stays as it is; any
//! other value becomes JSON. `${VAR}` is replaced in every string.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use super::reader::{ManifestReader, Value, integer_of, kind};
use super::section::Section;

/// A string as it is, any other value as JSON.
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

/// The payload of a job: a string, or a table or an array, which becomes JSON. The default is empty.
pub(super) fn read_payload(section: &Section<'_>) -> Option<Bytes> {
    match section.value("payload") {
        None => Some(Bytes::new()),
        Some(_) => read_bytes(section, "payload"),
    }
}

/// Bytes: a string, or a table or an array, which becomes JSON. `None` if the key is absent or invalid.
pub(super) fn read_bytes(section: &Section<'_>, key: &str) -> Option<Bytes> {
    let (value, reader) = (section.value(key)?, section.reader());
    if !matches!(value.get_ref(), DeValue::String(_) | DeValue::Table(_) | DeValue::Array(_)) {
        let title = format!(
            "`{key}` is {}; it must be a string, a table or an array",
            kind(value.get_ref())
        );
        let hint = "write it in quotes; a table or an array becomes JSON";
        reader.refuse(Some(value.span()), title, hint);
        return None;
    }
    read_as_text(reader, key, value).map(Bytes::from)
}

/// A value as JSON, with `${VAR}` replaced in every string.
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
    reader.refuse(
        Some(value.span()),
        title,
        "write a finite number of at most 64 bits, or a string",
    );
    None
}

/// A table of texts; other values become JSON.
pub(super) fn read_texts(section: &Section<'_>, key: &str) -> Option<BTreeMap<String, String>> {
    let reader = section.reader();
    let entries = section.table(key)?.iter().map(|(name, value)| {
        Some((name.get_ref().to_string(), read_as_text(reader, name.get_ref(), value)?))
    });
    entries.collect::<Vec<_>>().into_iter().collect()
}
