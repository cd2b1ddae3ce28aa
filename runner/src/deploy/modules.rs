//! The handler modules: one for each handler and each canary of the manifest. Each is compiled next to the
//! one in service before it replaces it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duebox_sandbox::{Digest, Grants, Handler, Limits, Sandbox, SandboxConfig};
use tracing::warn;

use super::entry::{EntryName, entries};
use super::history::Role;
use super::module_file::{self, Fingerprint, ModuleError};
use crate::manifest::{Case, Manifest, Topic};

/// The files that the daemon depends on, each as it was when it was last applied.
pub(crate) type Files = BTreeMap<PathBuf, Option<Fingerprint>>;

/// What a module is for: the handler or the canary of an entry.
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

/// A compiled module and its recipe.
pub(crate) struct Module {
    pub(crate) handler: Handler,
    recipe: Recipe,
}

/// The settings that a module is made from: any change makes a new module.
#[derive(Clone, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) file: PathBuf,
    sha256: Option<Digest>,
    limits: Limits,
    /// Without the values of secrets, which change without the module.
    grants: Grants,
    smoke: Vec<Case>,
}

/// A module to compile.
pub(crate) struct ModuleRequest {
    pub(crate) slot: ModuleSlot,
    pub(crate) recipe: Recipe,
    pub(crate) topic: Topic,
}

/// The result of loading a module.
pub(crate) struct Loaded {
    pub(crate) slot: ModuleSlot,
    pub(crate) module: Result<Module, ModuleError>,
}

impl Recipe {
    /// The recipe of a topic or pattern; `None` if it has no handler.
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
    /// True if the module matches a recipe, as long as its file is unchanged.
    pub(crate) fn fits(&self, recipe: &Recipe) -> bool {
        // A pin of the module in service needs no new module.
        recipe.sha256.is_none_or(|pinned| pinned == self.handler.digest())
            && Recipe { sha256: self.recipe.sha256, ..recipe.clone() } == self.recipe
    }

    /// Updates the secrets of the module; true if they changed.
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

    /// The settings in effect: those that were compiled into the module come from its recipe.
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
    fn of(slot: ModuleSlot, topic: Topic) -> Option<Self> {
        Some(Self { slot, recipe: Recipe::of(&topic)?, topic })
    }

    fn load(self, sandbox: &Sandbox) -> Loaded {
        let Self { slot, recipe, topic } = self;
        let module = module_file::load(sandbox, &slot.entry, &topic);
        Loaded { slot, module: module.map(|handler| Module { handler, recipe }) }
    }
}

/// The modules that a manifest asks for.
pub(crate) fn requests(manifest: &Manifest) -> Vec<ModuleRequest> {
    let mut all = Vec::new();
    for (entry, topic) in entries(manifest) {
        all.extend(ModuleRequest::of(ModuleSlot::handler(entry.clone()), topic.clone()));
        if let Some(canary) = topic.of_canary() {
            all.extend(ModuleRequest::of(ModuleSlot::canary(entry), canary));
        }
    }
    all
}

/// Compiles modules one after the other, away from the threads that serve.
pub(crate) async fn load(sandbox: &Arc<Sandbox>, wanted: Vec<ModuleRequest>) -> Vec<Loaded> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let sandbox = Arc::clone(sandbox);
    let load = move || wanted.into_iter().map(|wanted| wanted.load(&sandbox)).collect();
    tokio::task::spawn_blocking(load).await.unwrap_or_else(|error| {
        warn!(%error, "loading modules failed; the modules in service stay");
        Vec::new()
    })
}

/// Loads every module of a manifest, or fails with all handlers that are refused. A refused canary does not
/// fail the start.
pub(crate) async fn load_all(
    sandbox: &Arc<Sandbox>,
    manifest: &Manifest,
) -> anyhow::Result<Vec<Loaded>> {
    let wanted = requests(manifest);
    let count = wanted.len();
    let loaded = load(sandbox, wanted).await;
    anyhow::ensure!(loaded.len() == count, "the modules could not be loaded; see the log");
    let handlers = loaded.iter().filter(|loaded| loaded.slot.role == Role::Handler);
    let refused = handlers.filter_map(|loaded| loaded.module.as_ref().err());
    let refused: Vec<String> = refused.map(ModuleError::to_string).collect();
    if refused.is_empty() { Ok(loaded) } else { Err(BadModules(refused).into()) }
}

/// Handlers that were refused at start.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct BadModules(Vec<String>);

/// The current fingerprints of all files that the daemon depends on.
pub(crate) fn fingerprints(manifest: &Manifest) -> Files {
    let modules = requests(manifest).into_iter().map(|wanted| wanted.recipe.file);
    let files = std::iter::once(manifest.path.clone()).chain(modules);
    let files = files.chain(secret_files(manifest));
    files.map(|file| (file.clone(), module_file::fingerprint(&file))).collect()
}

/// The files that are read with the manifest: secrets, tokens and certificates.
pub(crate) fn secret_files(manifest: &Manifest) -> impl Iterator<Item = PathBuf> {
    let secrets = manifest.all_settings().flat_map(Topic::secret_files);
    secrets.chain(manifest.server.files()).map(Path::to_owned)
}

/// A sandbox configuration with room for the largest handler of a manifest.
pub(crate) fn sandbox_config(manifest: &Manifest) -> SandboxConfig {
    let limits = || manifest.all_settings().map(|topic| &topic.limits);
    let defaults = Limits::default();
    SandboxConfig {
        max_jobs: manifest.runner.max_jobs,
        memory_max: limits().map(|l| l.memory).max().unwrap_or(0).max(defaults.memory),
        tables_max: limits().map(|l| l.tables).max().unwrap_or(0).max(defaults.tables),
    }
}
