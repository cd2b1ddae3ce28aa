//! Reload: a changed manifest or module is read, checked and compiled beside the one in service, and
//! takes over only if it is good. Jobs that run finish on the module they started with.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{info, warn};

use super::{Daemon, rollback};
use crate::deploy::deployment::Seat;
use crate::deploy::entry::{EntryName, entries};
use crate::deploy::history::{Fate, History, Role};
use crate::deploy::module_file::{Fingerprint, ModuleError, fingerprint};
use crate::deploy::modules::{self, Files, Loaded, Module, Place, Recipe, Wanted};
use crate::manifest::{Manifest, ManifestError};
use crate::observe::log;
use crate::report::status::Refusal;

/// What a look at the files found.
pub(super) struct Changes {
    /// The manifest, if it was changed.
    manifest: Option<Result<Manifest, ManifestError>>,
    /// Modules that were changed, or are asked for anew.
    modules: Vec<Loaded>,
    seen: Files,
}

impl Daemon {
    /// Looks at the files, and compiles what changed, while the daemon goes on. Nothing that serves is
    /// touched.
    pub(super) fn look_for_changes(&self) -> impl Future<Output = Changes> + use<> {
        let (manifest, wanted, seen) = self.find_changes();
        let sandbox = Arc::clone(&self.sandbox);
        async move { Changes { manifest, modules: modules::load(&sandbox, wanted).await, seen } }
    }

    /// What has changed, and which modules are to be made for it.
    fn find_changes(&self) -> (Option<Result<Manifest, ManifestError>>, Vec<Wanted>, Files) {
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
        let before: BTreeMap<Place, Recipe> = modules::wanted(&self.manifest)
            .into_iter()
            .map(|wanted| (wanted.place, wanted.recipe))
            .collect();
        // What was refused under this manifest is tried again when its file changes, not at every look.
        let manifest_is_new = matches!(manifest, Some(Ok(_)));
        let is_wanted = |wanted: &Wanted| {
            let file = &wanted.recipe.file;
            let file_is_new = is_new(file, seen.get(file).unwrap_or(&None));
            let serves_otherwise = match self.modules.get(&wanted.place) {
                // Refused before, unless it is asked for otherwise now.
                None => before.get(&wanted.place) != Some(&wanted.recipe),
                Some(seat) => !seat.fits(&wanted.recipe),
            };
            file_is_new || (manifest_is_new && serves_otherwise)
        };
        let wanted = modules::wanted(wanted).into_iter().filter(is_wanted).collect();
        (manifest, wanted, seen)
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
                self.health.manifest_refused(&error.to_string());
                self.refused.send_modify(|known| {
                    *known = Some(Refusal::of(&error, known.as_ref()));
                });
                self.awaited = error.awaited().to_vec();
                for file in &self.awaited {
                    // Not known as it was before: it may have come since, and is looked at again.
                    self.seen.entry(file.clone()).or_insert(None);
                }
            }
            Some(Ok(manifest)) => self.apply_manifest(manifest),
        }
        self.take(changes.modules);
        self.bind_all().await;
        self.finder.anew.notify_one();
        true
    }

    /// Seats the modules that are good, and says which are not.
    pub(super) fn take(&mut self, loaded: Vec<Loaded>) {
        for Loaded { place, module } in loaded {
            match module {
                Ok(module) => self.seat(place, module),
                Err(error) => self.refuse(&place, &error),
            }
        }
    }

    fn seat(&mut self, place: Place, module: Module) {
        let digest = module.handler.digest();
        let began_with = rollback::tally(&self.figures_of(&place.entry), digest);
        let history = self.history(&place.entry);
        let window = self.rule_of(&place.entry).window;
        let is_new = match self.modules.entry(place.clone()) {
            Entry::Occupied(mut seat) if place.role == Role::Handler => {
                seat.get_mut().take(module, window, began_with)
            }
            // A canary gives way to the handler, and not to the canary before.
            Entry::Occupied(mut seat) => seat.insert(Seat::new(module)).digest() != digest,
            Entry::Vacant(seat) => {
                seat.insert(Seat::new(module));
                true
            }
        };
        if is_new {
            history.note(place.role, Fate::Served, Some(&digest), "");
        } else {
            history.note_recovered(place.role, &digest);
        }
    }

    fn refuse(&mut self, place: &Place, error: &ModuleError) {
        let then = match (self.modules.contains_key(place), place.role) {
            (true, _) => "the module in service stays",
            (false, Role::Handler) => "the topic waits for a good module",
            (false, Role::Canary) => "the handler runs all jobs until the canary is good",
        };
        warn!(topic = %place.entry, role = place.role.word(), "{error}; {then}");
        let (digest, reason) = (error.digest(), error.to_string());
        self.history(&place.entry).note(place.role, Fate::Refused, digest.as_ref(), &reason);
    }

    /// What became of the modules of an entry.
    pub(super) fn history(&mut self, entry: &EntryName) -> History {
        self.histories.entry(entry.clone()).or_default().clone()
    }

    /// Notes the canaries that a new manifest asks for no more, and the modules that serve already what it
    /// asks for, where something else was refused before.
    fn note_what_is_asked(&mut self, manifest: &Manifest, places: &BTreeSet<Place>) {
        let mut before = BTreeMap::new();
        for Wanted { place, recipe, .. } in modules::wanted(&self.manifest) {
            if place.role == Role::Canary && !places.contains(&place) {
                self.history(&place.entry).note(Role::Canary, Fate::Left, None, "");
            }
            before.insert(place, recipe);
        }
        for Wanted { place, recipe, .. } in modules::wanted(manifest) {
            let Some(seat) = self.modules.get(&place) else { continue };
            let is_new = before.get(&place) != Some(&recipe);
            if is_new && seat.withdrawn().is_none() && seat.fits(&recipe) {
                let digest = seat.digest();
                self.history(&place.entry).note_recovered(place.role, &digest);
            }
        }
    }

    fn apply_manifest(&mut self, manifest: Manifest) {
        self.sandbox.limit_memory(manifest.runner.memory);
        for key in needs_restart(&self.manifest, &manifest) {
            warn!(key, "changed in the manifest: takes effect at the next start");
        }
        let runner = &manifest.runner;
        if let Err(error) = log::change(&runner.log, runner.log_format) {
            warn!(%error, "the log stays as it was");
        }
        let wanted = modules::wanted(&manifest).into_iter().map(|wanted| wanted.place);
        let places: BTreeSet<Place> = wanted.collect();
        self.note_what_is_asked(&manifest, &places);
        self.modules.retain(|place, _| places.contains(place));
        self.histories.retain(|entry, _| places.iter().any(|place| place.entry == *entry));
        for wanted in modules::wanted(&manifest) {
            let seat = self.modules.get_mut(&wanted.place);
            if seat.is_some_and(|seat| seat.give_secrets(&wanted.topic)) {
                info!(topic = %wanted.place.entry, "its secrets have changed: jobs that start now read the new ones");
            }
        }
        self.traces.send_to(runner.otlp.as_ref());
        self.events.keep(runner.events);
        self.awaited.clear();
        self.refused.send_replace(None);
        self.schedules.send_if_modified(|schedules| {
            let is_new = **schedules != *manifest.schedules;
            if is_new {
                *schedules = manifest.schedules.as_slice().into();
            }
            is_new
        });
        info!(topics = entries(&manifest).count(), "the manifest is reloaded");
        self.health.manifest_applied();
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
    if before.server.listen != after.server.listen {
        keys.push("server.listen".to_owned());
    }
    for (entry, topic) in entries(after) {
        let old = entries(before).find(|(old, _)| *old == entry);
        if old.is_some_and(|(_, old)| old.shards != topic.shards) {
            keys.push(format!("topics.\"{entry}\".shards"));
        }
    }
    keys
}
