//! Settings that can never work, or not as they seem to: requests that are always refused, pushes that no topic
//! takes, and times that contradict each other.

use std::time::Duration;

use duebox_job::{TopicName, format_duration};
use duebox_sandbox::{Origin, is_public};
use toml::de::DeTable;

use super::Risks;
use super::network::is_inside;
use crate::manifest::Manifest;
use crate::manifest::keys::nearest;
use crate::manifest::reader::Value;

/// The lease of a pull that asks for no other.
const PULL_LEASE: Duration = Duration::from_secs(60);

impl Risks<'_> {
    /// Warns of origins whose addresses are always refused.
    pub(super) fn check_private_origins(&self) {
        let Some(http) = &self.topic.grants.http else { return };
        for (number, origin) in http.allow.iter().enumerate() {
            let is_refused = match origin.address() {
                Some(address) => {
                    !is_public(address)
                        && !http.private.iter().any(|range| range.contains(&address))
                }
                // A name may have public addresses, too, unless it is inside by its form.
                None => http.private.is_empty() && is_private_name(origin),
            };
            if is_refused {
                let what = format!(
                    "`http` allows {origin}, which is a private address, and `http_private` does not grant it: each request is refused"
                );
                let hint = "grant its address in http_private, such as [\"10.20.0.7\"]";
                self.warn(self.entry_at("http", number), &what, hint);
            }
        }
    }

    /// Warns of pushes to topics that this manifest does not bind.
    pub(super) fn check_push_targets(&self, manifest: &Manifest) {
        for (number, target) in self.topic.grants.push.iter().flatten().enumerate() {
            if is_bound(manifest, target) {
                continue;
            }
            let what = format!(
                "`push` grants {target}, which no topic of this manifest binds: its jobs wait until another daemon binds it"
            );
            let names = manifest.topics.keys().map(TopicName::as_str);
            let hint = match nearest(target, names) {
                Some(like) => format!("did you mean {like:?}?"),
                None => format!("add [topics.\"{target}\"], or remove it from `push`"),
            };
            self.warn(self.entry_at("push", number), &what, &hint);
        }
    }

    /// Warns of a written ttr that a stop does not wait for.
    pub(super) fn check_ttr(&self, drain_timeout: Duration) {
        if let Some(value) = written_ttr(&self.tables)
            && self.topic.ttr > drain_timeout
        {
            let (ttr, drain) = (format_duration(self.topic.ttr), format_duration(drain_timeout));
            let what = format!(
                "`ttr` is {ttr}, but a stop waits {drain} (runner.drain_timeout): a longer job is interrupted and runs again"
            );
            let hint = format!("set drain_timeout = {ttr:?}, or lower `ttr`");
            self.warn(Some(value.span()), &what, &hint);
        }
    }

    /// Warns of a ttr of pull consumers that outlives the lease they get by default.
    pub(super) fn check_pull_lease(&self) {
        if let Some(value) = written_ttr(&self.tables)
            && self.topic.ttr > PULL_LEASE
        {
            let (ttr, lease) = (format_duration(self.topic.ttr), format_duration(PULL_LEASE));
            let what = format!(
                "`ttr` is {ttr}, but a pull leases jobs for {lease}: a consumer that works longer loses its job to another one"
            );
            let hint = format!("pull with lease={ttr} or extend the lease, or lower `ttr`");
            self.warn(Some(value.span()), &what, &hint);
        }
    }
}

/// Whether an origin names a host of the local network.
fn is_private_name(origin: &Origin) -> bool {
    origin.name().is_some_and(|name| !origin.covers_anyone() && is_inside(name))
}

/// Whether a topic, or a topic that a pattern covers, is bound.
fn is_bound(manifest: &Manifest, target: &str) -> bool {
    let Some(prefix) = target.strip_suffix('*') else {
        // A name that is not valid was refused.
        return TopicName::new(target).map_or(true, |name| manifest.topic_for(&name).is_some());
    };
    let overlaps = |pattern: String| {
        let other = pattern.trim_end_matches('*');
        other.starts_with(prefix) || prefix.starts_with(other)
    };
    manifest.topics.keys().any(|name| name.as_str().starts_with(prefix))
        || manifest.patterns.iter().any(|(pattern, _)| overlaps(pattern.to_string()))
}

/// The `ttr` as it is written, in the topic's table or in `[defaults]`.
fn written_ttr<'t>(tables: &[Option<&'t DeTable<'t>>; 2]) -> Option<&'t Value<'t>> {
    tables.iter().flatten().find_map(|table| table.get("ttr"))
}
