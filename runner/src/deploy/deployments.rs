//! The deployments of a daemon: the module of each entry's handler and canary, and the history of each
//! entry.
//!
//! Nothing here affects running workers: after a change the caller binds the topics of the entry again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duebox_sandbox::Digest;
use tracing::{info, warn};

use super::binding::{CanaryHandler, Handlers};
use super::deployment::{AttemptCounts, Deployment};
use super::entry::{EntryName, entries};
use super::history::{ModuleChange, ModuleHistory, Role};
use super::module_file::ModuleError;
use super::modules::{self, Loaded, Module, ModuleRequest, ModuleSlot};
use crate::manifest::{Manifest, Rollback, Topic};
use crate::observe::module_stats::ModuleStats;

/// The deployments, and the history of each entry.
#[derive(Default)]
pub(crate) struct Deployments {
    by_slot: BTreeMap<ModuleSlot, Deployment>,
    histories: BTreeMap<EntryName, ModuleHistory>,
}

/// The results of an entry's jobs, by which a module on trial is judged.
pub(crate) struct Evidence {
    /// The stats of every topic that the entry serves.
    pub(crate) stats: Vec<Arc<ModuleStats>>,
    /// Whether the breaker of one of these topics is open.
    pub(crate) is_held_back: bool,
}

/// The settings and modules that serve a topic.
pub(crate) struct Service {
    /// The settings in effect: those that were compiled into a module change only with the module.
    pub(crate) topic: Topic,
    /// The modules; `None` for a topic that pull consumers serve.
    pub(crate) handlers: Option<Handlers>,
}

impl Evidence {
    /// The attempts of a build on all of these topics.
    pub(crate) fn tally(&self, digest: Digest) -> AttemptCounts {
        let mut tally = AttemptCounts::default();
        self.stats.iter().for_each(|stats| tally += &stats.of(digest));
        tally
    }
}

impl Deployments {
    /// The deployment of a handler or canary; `None` as long as there is no valid module.
    pub(crate) fn at(&self, slot: &ModuleSlot) -> Option<&Deployment> {
        self.by_slot.get(slot)
    }

    pub(super) fn at_mut(&mut self, slot: &ModuleSlot) -> Option<&mut Deployment> {
        self.by_slot.get_mut(slot)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Deployment> {
        self.by_slot.values()
    }

    /// What serves the topics of an entry with these settings; `None` while there is no valid module.
    pub(crate) fn service(&self, entry: EntryName, settings: &Topic) -> Option<Service> {
        if settings.handler.is_none() {
            return Some(Service { topic: settings.clone(), handlers: None });
        }
        let slot = ModuleSlot::handler(entry);
        let module = &self.at(&slot)?.module;
        let canary = self.canary(slot.entry, settings);
        let handlers = Some(Handlers { main: module.handler.clone(), canary });
        Some(Service { topic: module.settings(settings), handlers })
    }

    fn canary(&self, entry: EntryName, settings: &Topic) -> Option<CanaryHandler> {
        let share = settings.canary.as_ref()?.share;
        let deployment = self.at(&ModuleSlot::canary(entry))?;
        Some(CanaryHandler { handler: deployment.module.handler.clone(), share })
    }

    /// The history of an entry, created if needed.
    pub(crate) fn history(&mut self, entry: &EntryName) -> ModuleHistory {
        self.histories.entry(entry.clone()).or_default().clone()
    }

    /// The history of an entry, if it has one.
    pub(crate) fn history_of(&self, entry: &EntryName) -> Option<&ModuleHistory> {
        self.histories.get(entry)
    }

    /// Deploys the valid modules and logs the others. A new build goes on trial; `evidence` gives the
    /// attempts that it ran before.
    pub(crate) fn deploy(
        &mut self,
        loaded: Vec<Loaded>,
        manifest: &Manifest,
        evidence: impl Fn(&EntryName) -> Evidence,
    ) {
        for Loaded { slot, module } in loaded {
            match module {
                Ok(module) => {
                    let began_with = evidence(&slot.entry).tally(module.handler.digest());
                    let rule = rollback_rule(manifest, &slot.entry);
                    self.accept(slot, module, rule, began_with);
                }
                Err(error) => self.refuse(&slot, &error),
            }
        }
    }

    fn accept(
        &mut self,
        slot: ModuleSlot,
        module: Module,
        rule: Rollback,
        began_with: AttemptCounts,
    ) {
        let digest = module.handler.digest();
        let history = self.history(&slot.entry);
        let is_new = match self.by_slot.entry(slot.clone()) {
            Entry::Occupied(mut at) if slot.role == Role::Handler => {
                at.get_mut().replace(module, rule.window, began_with)
            }
            // A canary falls back to the handler, not to the previous canary.
            Entry::Occupied(mut at) => at.insert(Deployment::new(module)).digest() != digest,
            Entry::Vacant(at) => {
                at.insert(Deployment::new(module));
                true
            }
        };
        if is_new {
            history.note(slot.role, ModuleChange::Served, Some(&digest), "");
        } else {
            history.note_recovered(slot.role, &digest);
        }
    }

    fn refuse(&mut self, slot: &ModuleSlot, error: &ModuleError) {
        let then = match (self.by_slot.contains_key(slot), slot.role) {
            (true, _) => "the module in service stays",
            (false, Role::Handler) => "the topic waits for a valid module",
            (false, Role::Canary) => "the handler runs all jobs until the canary is valid",
        };
        warn!(topic = %slot.entry, role = slot.role.word(), "{error}; {then}");
        let (digest, reason) = (error.digest(), error.to_string());
        self.history(&slot.entry).note(slot.role, ModuleChange::Refused, digest.as_ref(), &reason);
    }

    /// Applies a new manifest: removes deployments that it does not contain, and updates the secrets of the
    /// others.
    pub(crate) fn follow_manifest(&mut self, before: &Manifest, after: &Manifest) {
        let wanted = modules::requests(after);
        let slots: BTreeSet<&ModuleSlot> = wanted.iter().map(|wanted| &wanted.slot).collect();
        self.note_changes(before, &wanted, &slots);
        self.by_slot.retain(|slot, _| slots.contains(slot));
        self.histories.retain(|entry, _| slots.iter().any(|slot| slot.entry == *entry));
        for wanted in &wanted {
            let deployment = self.by_slot.get_mut(&wanted.slot);
            if deployment.is_some_and(|deployment| deployment.give_secrets(&wanted.topic)) {
                info!(topic = %wanted.slot.entry, "its secrets have changed: new jobs read the new values");
            }
        }
    }

    /// Records canaries that the new manifest does not contain, and modules that serve again what it asks
    /// for after a refusal.
    fn note_changes(
        &mut self,
        before: &Manifest,
        after: &[ModuleRequest],
        slots: &BTreeSet<&ModuleSlot>,
    ) {
        let mut recipes = BTreeMap::new();
        for ModuleRequest { slot, recipe, .. } in modules::requests(before) {
            if slot.role == Role::Canary && !slots.contains(&slot) {
                self.history(&slot.entry).note(Role::Canary, ModuleChange::Left, None, "");
            }
            recipes.insert(slot, recipe);
        }
        for ModuleRequest { slot, recipe, .. } in after {
            let Some(deployment) = self.by_slot.get(slot) else { continue };
            let is_new = recipes.get(slot) != Some(recipe);
            if is_new && deployment.withdrawn().is_none() && deployment.fits(recipe) {
                let digest = deployment.digest();
                self.history(&slot.entry).note_recovered(slot.role, &digest);
            }
        }
    }
}

/// The rollback rule of an entry.
fn rollback_rule(manifest: &Manifest, entry: &EntryName) -> Rollback {
    let found = entries(manifest).find(|(name, _)| name == entry);
    found.map_or_else(Rollback::default, |(_, topic)| topic.rollback)
}
