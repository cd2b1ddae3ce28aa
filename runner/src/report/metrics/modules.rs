//! Metrics of modules: which serve, and what happened to the requested ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::TOPICS_MAX;
use super::page::{About, Labels, Page, topic, word};
use crate::deploy::binding;
use crate::deploy::history::{ModuleChange, ModuleHistory, Role};
use crate::manifest::percent;
use crate::report::status::Watched;

pub(super) fn write(page: &mut Page<'_>, watched: &[Watched]) -> fmt::Result {
    let served = watched.iter().filter(|watched| watched.serving.is_some()).count();
    page.gauge(&About::new("topics_served", "Topics that a handler serves."), served)?;
    page.gauge(
        &About::new(
            "topics_waiting",
            "Entries of the manifest without a valid module: their jobs do not run.",
        ),
        watched.len() - served,
    )?;
    let reported = &watched[..watched.len().min(TOPICS_MAX)];
    page.infos(
        &About::new("module", "The modules that serve a topic now."),
        reported.iter().flat_map(modules),
    )?;
    page.gauges(
        &About::new("canary_ratio", "Share of a topic's jobs that its canary runs, 0 to 1."),
        reported
            .iter()
            .filter_map(|watched| Some((vec![topic(&watched.topic)], canary_share(watched)?))),
    )?;
    let rolled_back = || {
        let is_rolled_back = |watched: &Watched| u64::from(watched.withdrawn.is_some());
        reported.iter().map(move |watched| (vec![topic(&watched.topic)], is_rolled_back(watched)))
    };
    page.gauges(
        &About::new(
            "module_rolled_back",
            "1 while a rolled back module stays out of use, until its file or the manifest changes.",
        ),
        rolled_back(),
    )?;
    // The name before 0.1; it goes with 0.2.
    page.gauges(
        &About::new("module_withdrawn", "Deprecated: use duebox_module_rolled_back."),
        rolled_back(),
    )?;
    page.counters(
        &About::new(
            "module_changes",
            "Outcomes of module changes, by the entry of the manifest that requested them.",
        ),
        changes(reported),
    )
}

fn modules(watched: &Watched) -> Vec<Labels<'_>> {
    let Some(serving) = &watched.serving else { return Vec::new() };
    let handlers = binding::current(&serving.bound).handlers.clone();
    let canary = handlers.canary.as_ref().map(|canary| (Role::Canary, canary.handler.digest()));
    let all = std::iter::once((Role::Handler, handlers.main.digest())).chain(canary);
    let labels = |(role, digest): (Role, duebox_sandbox::Digest)| {
        let digest = ("digest", Cow::Owned(digest.short().to_string()));
        vec![topic(&watched.topic), word("role", role.word()), digest]
    };
    all.map(labels).collect()
}

fn canary_share(watched: &Watched) -> Option<f64> {
    let bound = binding::current(&watched.serving.as_ref()?.bound);
    Some(percent(bound.handlers.canary.as_ref()?.share) / 100.0)
}

/// The events of each entry, counted once for all its topics.
fn changes(watched: &[Watched]) -> impl Iterator<Item = (Labels<'_>, u64)> {
    let histories: BTreeMap<&str, &ModuleHistory> =
        watched.iter().map(|watched| (watched.entry.as_str(), &watched.history)).collect();
    histories.into_iter().flat_map(|(entry, history)| {
        ModuleChange::ALL
            .map(|fate| (vec![topic(entry), word("outcome", fate.word())], history.count_of(fate)))
    })
}
