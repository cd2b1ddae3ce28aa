//! Reload: a changed manifest or module is read, checked and compiled next to the one in service. Nothing
//! in service changes here; the caller deploys what is valid.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use duebox_sandbox::Sandbox;

use super::deployments::Deployments;
use super::module_file::{Fingerprint, fingerprint};
use super::modules::{self, Files, Loaded, ModuleRequest, ModuleSlot, Recipe};
use crate::manifest::{Environment, Manifest, ManifestError};

/// Looks for changed files.
pub(crate) struct Reloader {
    environment: Environment,
    /// The files as they were when they were last applied.
    seen: Files,
    /// Files and directories that a refused manifest needs: it is read again when one of them changes.
    awaited: Vec<PathBuf>,
}

/// What a look at the files found.
pub(crate) struct Changes {
    /// The manifest, if it changed.
    pub(crate) manifest: Option<Result<Manifest, ManifestError>>,
    /// Modules whose file or recipe changed.
    pub(crate) modules: Vec<Loaded>,
    seen: Files,
}

impl Reloader {
    /// Takes the fingerprints of a manifest's files. Call it before the files are read, so that a later
    /// change is found.
    pub(crate) fn new(manifest: &Manifest, environment: Environment) -> Self {
        Self { environment, seen: modules::fingerprints(manifest), awaited: Vec::new() }
    }

    /// The files to watch.
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

    /// Remembers what was found. False if nothing has changed.
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
                    // Unknown until now, so that it counts as changed when it appears.
                    self.seen.entry(file.clone()).or_insert(None);
                }
            }
        }
        true
    }

    /// Finds the changes, and the modules to compile for them.
    fn find_changes(
        &self,
        current: &Manifest,
        deployments: &Deployments,
    ) -> (Option<Result<Manifest, ManifestError>>, Vec<ModuleRequest>, Files) {
        let mut seen = modules::fingerprints(current);
        seen.extend(self.awaited.iter().map(|file| (file.clone(), fingerprint(file))));
        let manifest = self.read_manifest(current, &seen);
        let next = match &manifest {
            Some(Ok(manifest)) => manifest,
            _ => current,
        };
        // The fingerprints from before the manifest was read win: a change meanwhile is found later.
        for (file, now) in modules::fingerprints(next) {
            seen.entry(file).or_insert(now);
        }
        let before: BTreeMap<ModuleSlot, Recipe> = modules::wanted(current)
            .into_iter()
            .map(|wanted| (wanted.place, wanted.recipe))
            .collect();
        // A module refused under this manifest is tried again when its file changes, not at every look.
        let manifest_is_new = matches!(manifest, Some(Ok(_)));
        let is_wanted = |wanted: &ModuleRequest| {
            let serves_otherwise = match deployments.at(&wanted.place) {
                // It was refused before; only another recipe is worth a try.
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

    /// True if a file has changed since it was last applied.
    fn is_new(&self, file: &PathBuf, seen: &Files) -> bool {
        let now: &Option<Fingerprint> = seen.get(file).unwrap_or(&None);
        self.seen.get(file) != Some(now)
    }
}
