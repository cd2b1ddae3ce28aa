//! Warnings about risky settings of a valid manifest: grants that allow more than they seem to, limits that
//! contradict each other, and settings that can never work. A warning has a place in the file and does not refuse the manifest.

mod folders;
mod futile;
mod network;

use std::ops::Range;

use bytesize::ByteSize;
use toml::de::DeTable;

use self::folders::Private;
use super::Manifest;
use super::reader::ManifestReader;
use super::section::{Section, Value};
use super::topic::Topic;

/// Records the risks of every topic. In a manifest with problems, keys with problems count as not set, and what
/// depends on other tables is not judged.
pub(super) fn warn(root: &Section<'_>, manifest: &Manifest) {
    let reader = root.reader();
    if !reader.environment().runs_handlers() {
        return;
    }
    let is_whole = !reader.has_problems();
    let private = Private::of(manifest);
    let defaults = root.table("defaults");
    for (name, written) in root.table("topics").into_iter().flatten() {
        let name = name.get_ref().as_ref();
        let Some(topic) = topic_of(manifest, name) else { continue };
        let tables = [written.get_ref().as_table(), defaults];
        let risks = Risks { reader, name, topic, tables };
        if topic.handler.is_none() {
            risks.check_pull_lease();
            continue;
        }
        risks.check_network();
        risks.check_private_origins();
        risks.check_folders(&private);
        risks.check_push();
        risks.check_warm();
        if is_whole {
            risks.check_push_targets(manifest);
            risks.check_ttr(manifest.runner.drain_timeout);
            risks.check_sizes(manifest.runner.memory);
        }
    }
}

/// The topic or pattern with this name in the file.
fn topic_of<'m>(manifest: &'m Manifest, name: &str) -> Option<&'m Topic> {
    let named = manifest.topics.iter().find(|(known, _)| known.as_str() == name);
    let named = named.map(|(_, topic)| topic);
    let mut patterns = manifest.patterns.iter();
    named.or_else(|| patterns.find(|(known, _)| known.to_string() == name).map(|(_, topic)| topic))
}

/// One topic and the tables with its settings: its own, then `[defaults]`.
struct Risks<'t> {
    reader: &'t ManifestReader<'t>,
    name: &'t str,
    topic: &'t Topic,
    tables: [Option<&'t DeTable<'t>>; 2],
}

impl<'t> Risks<'t> {
    fn warn(&self, at: Option<Range<usize>>, what: &str, hint: &str) {
        self.reader.warn(at, format!("topic `{}`: {what}", self.name), hint);
    }

    /// Whether the handler can read secrets.
    fn has_secrets(&self) -> bool {
        !self.topic.secrets.is_empty()
    }

    /// The value of a sandbox key in the topic's table, else in `[defaults]`.
    fn sandbox(&self, key: &str) -> Option<&'t Value<'t>> {
        let tables = self.tables.iter().flatten();
        let mut sandboxes = tables.filter_map(|table| table.get("sandbox")?.get_ref().as_table());
        sandboxes.find_map(|sandbox| sandbox.get(key))
    }

    fn sandbox_at(&self, key: &str) -> Option<Range<usize>> {
        self.sandbox(key).map(Value::span)
    }

    /// The byte range of the entry `number` in an array of the sandbox.
    fn entry_at(&self, key: &str, number: usize) -> Option<Range<usize>> {
        Some(self.sandbox(key)?.get_ref().as_array()?.get(number)?.span())
    }

    fn check_push(&self) {
        let patterns = self.topic.grants.push.iter().flatten();
        for (number, _) in patterns.enumerate().filter(|(_, pattern)| *pattern == "*") {
            self.warn(
                self.entry_at("push", number),
                "`push` covers every topic, including topics with more grants",
                "list the topics of its follow-up jobs",
            );
        }
    }

    fn check_warm(&self) {
        if self.topic.limits.instances.jobs_each > 1 && self.has_secrets() {
            let mut tables = self.tables.iter().flatten();
            self.warn(
                tables.find_map(|table| table.get("isolation")).map(Value::span),
                "a job of a warm instance can read the memory of earlier jobs, and the handler has secrets",
                "use isolation = \"job\" unless all its jobs may see each other's data",
            );
        }
    }

    fn check_sizes(&self, all: usize) {
        let size = |bytes: usize| ByteSize(bytes as u64).display().iec().to_string();
        let memory = self.topic.limits.memory;
        if memory > all {
            let (own, all) = (size(memory), size(all));
            let what =
                format!("`memory` is {own}, but runner.memory is {all} for all handlers together");
            let hint = "raise runner.memory, or lower `memory`; a job that needs more is released each time";
            self.warn(self.sandbox_at("memory"), &what, hint);
        }
        let http_body = self.topic.grants.http.as_ref().map_or(0, |http| http.body_max);
        for (key, bytes) in [("payload", self.topic.limits.payload), ("http_body", http_body)] {
            if bytes > memory {
                let what = format!("`{key}` is {}, but `memory` is {}", size(bytes), size(memory));
                let hint =
                    format!("raise `memory`, or lower `{key}`; the handler cannot hold so much");
                self.warn(self.sandbox_at(key).or_else(|| self.sandbox_at("memory")), &what, &hint);
            }
        }
    }
}
