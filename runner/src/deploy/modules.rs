//! The handler modules: one for each place of the manifest, which is an entry's handler or its canary.
//! Each is compiled next to the one in service before it replaces it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duebox_sandbox::{Digest, Grants, Handler, Limits, Sandbox, SandboxConfig};
use tracing::warn;

use super::entry::{EntryName, entries};
use super::history::Role;
use super::module_file::{self, Fingerprint, ModuleError};
use crate::manifest::{Manifest, SmokeCase, Topic};

/// The files the daemon lives by, each as it was when it was last acted on.
pub(crate) type Files = BTreeMap<PathBuf, Option<Fingerprint>>;

/// Where a module serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModuleSlot {
    pub(crate) entry: EntryName,
    pub(crate) role: Role,
}

impl ModuleSlot {
    pub(crate) fn handler(entry: EntryName) -> Self {
        Self { entry, role: Role::Handler }
    }

    pub(crate) fn canary(entry: EntryName) -> Self {
        Self { entry, role: Role::Canary }
    }
}

/// A module, and what it was made from.
pub(crate) struct Module {
    pub(crate) handler: Handler,
    recipe: Recipe,
}

/// What the manifest says about a module: with any of it another, the module is made anew.
#[derive(Clone, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) file: PathBuf,
    sha256: Option<Digest>,
    limits: Limits,
    /// Without the values of secrets: they change without the module.
    grants: Grants,
    smoke: Vec<SmokeCase>,
}

/// A module to be compiled.
pub(crate) struct ModuleRequest {
    pub(crate) place: ModuleSlot,
    pub(crate) recipe: Recipe,
    pub(crate) topic: Topic,
}

/// What came of it.
pub(crate) struct Loaded {
    pub(crate) place: ModuleSlot,
    pub(crate) module: Result<Module, ModuleError>,
}

impl Recipe {
    /// The recipe of a topic, or of a pattern of topics; none if it has no handler.
    pub(crate) fn of(topic: &Topic) -> Option<Self> {
        let Topic { handler, sha256, limits, smoke, .. } = topic;
        Some(Self {
            file: handler.clone()?,
            sha256: *sha256,
            limits: limits.clone(),
            grants: topic.grants_without_secrets(),
            smoke: smoke.clone(),
        })
    }
}

impl Module {
    /// True if it is what a recipe asks for, as long as its file is the same.
    pub(crate) fn fits(&self, recipe: &Recipe) -> bool {
        // A pin that names what serves already asks for nothing new.
        recipe.sha256.is_none_or(|pinned| pinned == self.handler.digest())
            && Recipe { sha256: self.recipe.sha256, ..recipe.clone() } == self.recipe
    }

    /// Gives the module the secrets as they are now. True if they are others than before.
    pub(crate) fn give_secrets(&mut self, topic: &Topic) -> bool {
        let mut config = self.recipe.grants.config.clone();
        let values = topic.grants.config.iter();
        let values = values.filter(|(name, _)| topic.secrets.contains_key(*name));
        config.extend(values.map(|(name, value)| (name.clone(), value.clone())));
        let are_others = config != *self.handler.config();
        if are_others {
            self.handler = self.handler.with_config(config);
        }
        are_others
    }

    pub(crate) fn into_recipe(self) -> Recipe {
        self.recipe
    }

    /// The settings with which it serves: what it was compiled with changes only with it.
    pub(crate) fn settings(&self, topic: &Topic) -> Topic {
        Topic {
            handler: Some(self.recipe.file.clone()),
            limits: self.recipe.limits.clone(),
            grants: Grants { config: self.handler.config().clone(), ..self.recipe.grants.clone() },
            ..topic.clone()
        }
    }
}

impl ModuleRequest {
    fn of(place: ModuleSlot, topic: Topic) -> Option<Self> {
        Some(Self { place, recipe: Recipe::of(&topic)?, topic })
    }

    fn load(self, sandbox: &Sandbox) -> Loaded {
        let Self { place, recipe, topic } = self;
        let module = module_file::load(sandbox, &place.entry, &topic);
        Loaded { place, module: module.map(|handler| Module { handler, recipe }) }
    }
}

/// What a manifest asks for, at every place.
pub(crate) fn wanted(manifest: &Manifest) -> Vec<ModuleRequest> {
    let mut all = Vec::new();
    for (entry, topic) in entries(manifest) {
        all.extend(ModuleRequest::of(ModuleSlot::handler(entry.clone()), topic.clone()));
        if let Some(canary) = topic.of_canary() {
            all.extend(ModuleRequest::of(ModuleSlot::canary(entry), canary));
        }
    }
    all
}

/// Compiles modules, one after the other, away from the threads that serve.
pub(crate) async fn load(sandbox: &Arc<Sandbox>, wanted: Vec<ModuleRequest>) -> Vec<Loaded> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let sandbox = Arc::clone(sandbox);
    let load = move || wanted.into_iter().map(|wanted| wanted.load(&sandbox)).collect();
    tokio::task::spawn_blocking(load).await.unwrap_or_else(|error| {
        warn!(%error, "loading modules failed; those in service stay");
        Vec::new()
    })
}

/// Loads every module of a manifest, or says what is wrong with each handler that is refused. A canary
/// that is refused is no reason not to start.
pub(crate) async fn load_all(
    sandbox: &Arc<Sandbox>,
    manifest: &Manifest,
) -> anyhow::Result<Vec<Loaded>> {
    let wanted = wanted(manifest);
    let count = wanted.len();
    let loaded = load(sandbox, wanted).await;
    anyhow::ensure!(loaded.len() == count, "the modules could not be loaded; see the log");
    let handlers = loaded.iter().filter(|loaded| loaded.place.role == Role::Handler);
    let refused = handlers.filter_map(|loaded| loaded.module.as_ref().err());
    let refused: Vec<String> = refused.map(ModuleError::to_string).collect();
    if refused.is_empty() { Ok(loaded) } else { Err(BadModules(refused).into()) }
}

/// Modules that are refused at start.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BadModules(Vec<String>);

/// Every file the daemon lives by, as it is now.
pub(crate) fn fingerprints(manifest: &Manifest) -> Files {
    let modules = wanted(manifest).into_iter().map(|wanted| wanted.recipe.file);
    let files = std::iter::once(manifest.path.clone()).chain(modules);
    let files = files.chain(secret_files(manifest));
    files.map(|file| (file.clone(), module_file::fingerprint(&file))).collect()
}

/// The files that are read with the manifest: those that secrets are kept in, tokens and certificates.
pub(crate) fn secret_files(manifest: &Manifest) -> impl Iterator<Item = PathBuf> {
    let secrets = manifest.all_settings().flat_map(Topic::secret_files);
    secrets.chain(manifest.server.files()).map(Path::to_owned)
}

/// A sandbox that has room for the largest handler of a manifest.
pub(crate) fn sandbox_config(manifest: &Manifest) -> SandboxConfig {
    let limits = || manifest.all_settings().map(|topic| &topic.limits);
    let defaults = Limits::default();
    SandboxConfig {
        max_jobs: manifest.runner.max_jobs,
        memory_max: limits().map(|l| l.memory).max().unwrap_or(0).max(defaults.memory),
        tables_max: limits().map(|l| l.tables).max().unwrap_or(0).max(defaults.tables),
    }
}
