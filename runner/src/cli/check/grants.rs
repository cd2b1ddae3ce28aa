//! The grants of a topic as `duebox check` prints them. Of a secret it prints the name and the
//! source, never the value.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use duebox_sandbox::Grants;
use serde::Serialize;

use crate::manifest::Topic;

/// The grants of a topic; the JSON output.
#[derive(Serialize)]
pub(super) struct GrantLines {
    /// `None` if not granted: a handler that imports it is refused.
    push: Option<Vec<String>>,
    /// `None` if not granted: a handler that imports it is refused.
    http: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    http_private: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_body_bytes: Option<usize>,
    kv: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    dirs: BTreeMap<String, String>,
    /// Names only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
    /// Names only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    config: Vec<String>,
    /// The source of each secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    secrets: BTreeMap<String, String>,
}

impl GrantLines {
    pub(super) fn of(topic: &Topic) -> Self {
        let Grants { config, env, push, http, kv, dirs } = &topic.grants;
        let texts = |http: &duebox_sandbox::HttpGrant| {
            let allowed = http.allow.iter().map(ToString::to_string).collect();
            (allowed, http.private.iter().map(ToString::to_string).collect(), http.body_max)
        };
        let (http, http_private, http_body_bytes) = match http.as_ref().map(texts) {
            Some((allowed, private, body)) => (Some(allowed), private, Some(body)),
            None => (None, Vec::new(), None),
        };
        let plain = config.keys().filter(|name| !topic.secrets.contains_key(*name));
        let host = |path: &std::path::PathBuf| path.display().to_string();
        let kept = topic.secrets.iter().map(|(name, source)| (name.clone(), source.to_string()));
        Self {
            push: push.clone(),
            http,
            http_private,
            http_body_bytes,
            kv: *kv,
            dirs: dirs.iter().map(|(guest, path)| (guest.clone(), host(path))).collect(),
            env: env.keys().cloned().collect(),
            config: plain.cloned().collect(),
            secrets: kept.collect(),
        }
    }

    /// The grants as table rows: a manifest key, and what it allows.
    pub(super) fn rows(&self, topic: &str) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |key: &str, what: String| {
            rows.push(vec![topic.to_owned(), key.to_owned(), what]);
        };
        let listed = |names: &[String]| match names {
            [] => "nothing: every call is denied".to_owned(),
            _ => names.join(", "),
        };
        if let Some(push) = &self.push {
            row("push", listed(push));
        }
        if let Some(http) = &self.http {
            row("http", listed(http));
        }
        if !self.http_private.is_empty() {
            row("http_private", self.http_private.join(", "));
        }
        if let Some(bytes) = self.http_body_bytes {
            row("http_body", ByteSize(bytes as u64).display().iec().to_string());
        }
        if self.kv {
            row("kv", "the topic's store".to_owned());
        }
        for (guest, host) in &self.dirs {
            row("dirs", format!("{guest} is {host}"));
        }
        for (key, names) in [("env", &self.env), ("config", &self.config)] {
            if !names.is_empty() {
                row(key, names.join(", "));
            }
        }
        for (name, source) in &self.secrets {
            row("secrets", format!("{name} from the {source}"));
        }
        rows
    }
}
