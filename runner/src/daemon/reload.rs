//! Reload: a changed manifest or module is read, checked and compiled beside the one in service, and
//! takes over only if it is good. Jobs that run finish on the module they started with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use super::Daemon;
use super::entry::{EntryName, entries};
use super::modules::{self, Files, Loaded, Recipe, Wanted};
use crate::manifest::{Manifest, ManifestError};
use crate::module_file::{Fingerprint, fingerprint};
use crate::telemetry;

/// What a look at the files found.
pub(super) struct Changes {
    /// The manifest, if it was changed.
    manifest: Option<Result<Manifest, ManifestError>>,
    /// Modules that were changed, or are asked for anew.
    modules: Vec<Loaded>,
    seen: Files,
}

impl Daemon {
    /// Looks at the files, and compiles what changed. Nothing that serves is touched.
    pub(super) async fn look_for_changes(&self) -> Changes {
        let mut seen = modules::fingerprints(&self.manifest);
        seen.extend(self.awaited.iter().map(|file| (file.clone(), fingerprint(file))));
        let is_new = |file: &PathBuf, now: &Option<Fingerprint>| self.seen.get(file) != Some(now);
        let path = &self.manifest.path;
        let mut read_with = std::iter::once(path.clone())
            .chain(modules::secret_files(&self.manifest))
            .chain(self.awaited.iter().cloned());
        let manifest = read_with
            .any(|file| is_new(&file, seen.get(&file).unwrap_or(&None)))
            .then(|| Manifest::load_with(path, &self.surroundings));
        let wanted = match &manifest {
            Some(Ok(manifest)) => manifest,
            _ => &self.manifest,
        };
        // What was seen before the manifest was read stands: a change meanwhile is seen as one.
        for (file, now) in modules::fingerprints(wanted) {
            seen.entry(file).or_insert(now);
        }
        let before: BTreeMap<EntryName, Recipe> = entries(&self.manifest)
            .filter_map(|(entry, topic)| Some((entry, Recipe::of(topic)?)))
            .collect();
        // What was refused under this manifest is tried again when its file changes, not at every look.
        let manifest_is_new = matches!(manifest, Some(Ok(_)));
        let is_wanted = |wanted: &Wanted| {
            let file = &wanted.recipe.file;
            let file_is_new = is_new(file, seen.get(file).unwrap_or(&None));
            let serves_otherwise = match self.modules.get(&wanted.entry) {
                // Refused before, unless it is asked for otherwise now.
                None => before.get(&wanted.entry) != Some(&wanted.recipe),
                Some(module) => !module.fits(&wanted.recipe),
            };
            file_is_new || (manifest_is_new && serves_otherwise)
        };
        let to_load = entries(wanted).filter_map(|(entry, topic)| Wanted::of(entry, topic));
        let to_load = to_load.filter(is_wanted).collect();
        let modules = modules::load(&self.sandbox, to_load).await;
        Changes { manifest, modules, seen }
    }

    /// Puts what is good into service, and says what is not. False if nothing has changed.
    pub(super) async fn apply_changes(&mut self, changes: Changes) -> bool {
        if changes.seen == self.seen && changes.manifest.is_none() && changes.modules.is_empty() {
            return false;
        }
        self.seen = changes.seen;
        match changes.manifest {
            None => {}
            Some(Err(error)) => {
                warn!("the manifest is refused, the one in service stays\n{error}");
                self.awaited = error.awaited().to_vec();
                for file in &self.awaited {
                    // Not known as it was before: it may have come since, and is looked at again.
                    self.seen.entry(file.clone()).or_insert(None);
                }
            }
            Some(Ok(manifest)) => self.apply_manifest(manifest),
        }
        for Loaded { entry, module } in changes.modules {
            match module {
                Ok(module) => drop(self.modules.insert(entry, module)),
                Err(error) if self.modules.contains_key(&entry) => {
                    warn!(topic = %entry, "{error}; the module in service stays");
                }
                Err(error) => warn!(topic = %entry, "{error}; the topic waits for a good module"),
            }
        }
        self.bind_all().await;
        self.finder.anew.notify_one();
        true
    }

    fn apply_manifest(&mut self, manifest: Manifest) {
        self.sandbox.limit_memory(manifest.runner.memory);
        for key in needs_restart(&self.manifest, &manifest) {
            warn!(key, "changed in the manifest: takes effect at the next start");
        }
        let runner = &manifest.runner;
        if let Err(error) = telemetry::change(&runner.log, runner.log_format) {
            warn!(%error, "the log stays as it was");
        }
        let with_handler: BTreeSet<EntryName> = entries(&manifest)
            .filter(|(_, topic)| topic.handler.is_some())
            .map(|(entry, _)| entry)
            .collect();
        self.modules.retain(|entry, _| with_handler.contains(entry));
        for (entry, topic) in entries(&manifest) {
            let module = self.modules.get_mut(&entry);
            if module.is_some_and(|module| module.give_secrets(topic)) {
                info!(topic = %entry, "its secrets have changed: jobs that start now read the new ones");
            }
        }
        self.awaited.clear();
        self.schedules.send_if_modified(|schedules| {
            let is_new = **schedules != *manifest.schedules;
            if is_new {
                *schedules = manifest.schedules.as_slice().into();
            }
            is_new
        });
        info!(topics = entries(&manifest).count(), "the manifest is reloaded");
        self.crowded = false;
        self.manifest = Arc::new(manifest);
    }
}

/// Keys that were changed and are read at start only.
fn needs_restart(before: &Manifest, after: &Manifest) -> Vec<String> {
    let mut keys = Vec::new();
    if before.redis != after.redis {
        keys.push("[redis]".to_owned());
    }
    if before.runner.threads != after.runner.threads {
        keys.push("runner.threads".to_owned());
    }
    if before.runner.max_jobs != after.runner.max_jobs {
        keys.push("runner.max_jobs".to_owned());
    }
    if before.runner.cache != after.runner.cache {
        keys.push("runner.cache".to_owned());
    }
    for (entry, topic) in entries(after) {
        let old = entries(before).find(|(old, _)| *old == entry);
        if old.is_some_and(|(_, old)| old.shards != topic.shards) {
            keys.push(format!("topics.\"{entry}\".shards"));
        }
    }
    keys
}
