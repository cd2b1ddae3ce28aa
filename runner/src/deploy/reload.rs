//! Reload: a changed manifest or module is read, checked and compiled next to the one in service. Looking
//! changes nothing that serves; what is good is deployed by its caller.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use duebox_sandbox::Sandbox;

use super::deployments::Deployments;
use super::module_file::{Fingerprint, fingerprint};
use super::modules::{self, Files, Loaded, Place, Recipe, Wanted};
use crate::manifest::{Environment, Manifest, ManifestError};

/// Looks for changes of the files that the daemon lives by.
pub(crate) struct Reloader {
    environment: Environment,
    /// The files as they were when they were last acted on.
    seen: Files,
    /// Files and directories that a refused manifest wants otherwise: it is read again when one changes.
    awaited: Vec<PathBuf>,
}

/// What a look at the files found.
pub(crate) struct Changes {
    /// The manifest, if it was changed.
    pub(crate) manifest: Option<Result<Manifest, ManifestError>>,
    /// Modules that were changed, or are asked for anew.
    pub(crate) modules: Vec<Loaded>,
    seen: Files,
}

impl Reloader {
    /// Takes the files of a manifest as they are now. To be called before they are read: then a change in
    /// the meantime is found.
    pub(crate) fn new(manifest: &Manifest, environment: Environment) -> Self {
        Self { environment, seen: modules::fingerprints(manifest), awaited: Vec::new() }
    }

    /// The files that are to be watched.
    pub(crate) fn files(&self) -> &Files {
        &self.seen
    }

    /// Looks at the files, and compiles what changed.
    pub(crate) fn look(
        &self,
        sandbox: &Arc<Sandbox>,
        manifest: &Manifest,
        deployments: &Deployments,
    ) -> impl Future<Output = Changes> + use<> {
        let (manifest, wanted, seen) = self.find_changes(manifest, deployments);
        let sandbox = Arc::clone(sandbox);
        async move { Changes { manifest, modules: modules::load(&sandbox, wanted).await, seen } }
    }

    /// Takes note of what was found. False if nothing has changed.
    pub(crate) fn note(&mut self, changes: &Changes) -> bool {
        if changes.seen == self.seen && changes.manifest.is_none() && changes.modules.is_empty() {
            return false;
        }
        self.seen.clone_from(&changes.seen);
        match &changes.manifest {
            None => {}
            Some(Ok(_)) => self.awaited.clear(),
            Some(Err(error)) => {
                self.awaited = error.awaited().to_vec();
                for file in &self.awaited {
                    // Not known as it was before: it may have come since, and is looked at again.
                    self.seen.entry(file.clone()).or_insert(None);
                }
            }
        }
        true
    }

    /// What has changed, and which modules are to be made for it.
    fn find_changes(
        &self,
        current: &Manifest,
        deployments: &Deployments,
    ) -> (Option<Result<Manifest, ManifestError>>, Vec<Wanted>, Files) {
        let mut seen = modules::fingerprints(current);
        seen.extend(self.awaited.iter().map(|file| (file.clone(), fingerprint(file))));
        let manifest = self.read_manifest(current, &seen);
        let next = match &manifest {
            Some(Ok(manifest)) => manifest,
            _ => current,
        };
        // What was seen before the manifest was read stands: a change meanwhile is seen as one.
        for (file, now) in modules::fingerprints(next) {
            seen.entry(file).or_insert(now);
        }
        let before: BTreeMap<Place, Recipe> = modules::wanted(current)
            .into_iter()
            .map(|wanted| (wanted.place, wanted.recipe))
            .collect();
        // What was refused under this manifest is tried again when its file changes, not at every look.
        let manifest_is_new = matches!(manifest, Some(Ok(_)));
        let is_wanted = |wanted: &Wanted| {
            let serves_otherwise = match deployments.at(&wanted.place) {
                // Refused before, unless it is asked for otherwise now.
                None => before.get(&wanted.place) != Some(&wanted.recipe),
                Some(deployment) => !deployment.fits(&wanted.recipe),
            };
            self.is_new(&wanted.recipe.file, &seen) || (manifest_is_new && serves_otherwise)
        };
        let wanted = modules::wanted(next).into_iter().filter(is_wanted).collect();
        (manifest, wanted, seen)
    }

    /// Reads the manifest again if it, or a file that is read with it, has changed.
    fn read_manifest(
        &self,
        current: &Manifest,
        seen: &Files,
    ) -> Option<Result<Manifest, ManifestError>> {
        let path = &current.path;
        let mut read_with = std::iter::once(path.clone())
            .chain(modules::secret_files(current))
            .chain(self.awaited.iter().cloned());
        let has_changed = read_with.any(|file| self.is_new(&file, seen));
        has_changed.then(|| Manifest::load_with(path, &self.environment))
    }

    /// True if a file is not as it was when it was last acted on.
    fn is_new(&self, file: &PathBuf, seen: &Files) -> bool {
        let now: &Option<Fingerprint> = seen.get(file).unwrap_or(&None);
        self.seen.get(file) != Some(now)
    }
}
