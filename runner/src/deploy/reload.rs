//! Reload: a changed manifest or module is read, checked and compiled next to the one in service. Nothing
//! in service changes here; the caller deploys what is valid.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use duebox_sandbox::Sandbox;
use tracing::warn;

use super::deployments::Deployments;
use super::module_file::{Fingerprint, fingerprint};
use super::modules::{self, Files, Loaded, ModuleRequest, ModuleSlot, Recipe};
use crate::language;
use crate::manifest::{Environment, Manifest, ManifestError};

/// Looks for changed files.
#[derive(Clone)]
pub(crate) struct Reloader {
    environment: Environment,
    /// The files as they were when they were last applied.
    seen: Files,
    /// Files and directories that a refused manifest needs: it is read again when one of them changes.
    awaited: Vec<PathBuf>,
}

/// The files as they are now, and the manifest if it has changed.
pub(crate) struct FilesNow {
    manifest: Option<Result<Manifest, ManifestError>>,
    seen: Files,
}

/// What has changed, with the modules compiled.
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

    /// The files to watch, those that source handlers import among them.
    pub(crate) fn files(&self) -> Files {
        let mut files = self.seen.clone();
        files.extend(self.seen.keys().flat_map(|file| language::files(file)));
        files
    }

    /// Looks at the files, and reads the manifest if it has changed. It runs on a blocking thread, because a
    /// file system may not respond.
    pub(crate) fn look(&self, current: &Arc<Manifest>) -> impl Future<Output = FilesNow> + use<> {
        let (reloader, current) = (self.clone(), Arc::clone(current));
        let unchanged = FilesNow { manifest: None, seen: self.seen.clone() };
        async move {
            let look = tokio::task::spawn_blocking(move || reloader.read_now(&current));
            look.await.unwrap_or_else(|error| {
                warn!(%error, "looking at the files failed; nothing is reloaded");
                unchanged
            })
        }
    }

    /// Compiles the modules that have changed.
    pub(crate) fn load(
        &self,
        look: FilesNow,
        sandbox: &Arc<Sandbox>,
        current: &Manifest,
        deployments: &Deployments,
    ) -> impl Future<Output = Changes> + use<> {
        let wanted = self.changed_modules(&look, current, deployments);
        let (FilesNow { manifest, seen }, sandbox) = (look, Arc::clone(sandbox));
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

    fn read_now(&self, current: &Manifest) -> FilesNow {
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
        FilesNow { manifest, seen }
    }

    /// The modules whose file or recipe has changed.
    fn changed_modules(
        &self,
        look: &FilesNow,
        current: &Manifest,
        deployments: &Deployments,
    ) -> Vec<ModuleRequest> {
        let FilesNow { manifest, seen } = look;
        let next = match manifest {
            Some(Ok(manifest)) => manifest,
            _ => current,
        };
        let before: BTreeMap<ModuleSlot, Recipe> = modules::requests(current)
            .into_iter()
            .map(|wanted| (wanted.slot, wanted.recipe))
            .collect();
        // A module refused under this manifest is tried again when its file changes, not at every look.
        let manifest_is_new = matches!(manifest, Some(Ok(_)));
        let is_wanted = |wanted: &ModuleRequest| {
            let serves_otherwise = match deployments.at(&wanted.slot) {
                // It was refused before; only another recipe is worth a try.
                None => before.get(&wanted.slot) != Some(&wanted.recipe),
                Some(deployment) => !deployment.fits(&wanted.recipe),
            };
            let file = &wanted.recipe.file;
            let file_is_new = self.is_new(file, seen) || language::has_changed(file);
            file_is_new || (manifest_is_new && serves_otherwise)
        };
        modules::requests(next).into_iter().filter(is_wanted).collect()
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
