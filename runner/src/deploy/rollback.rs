//! Rollback to the previous module, either because the new one fails too often on trial, or by an
//! operator's order. The topics of a pattern share their module, so they roll back together.

use duebox_sandbox::Digest;
use tracing::{error, info, warn};

use super::deployment::{Deployment, TrialResult};
use super::deployments::{Deployments, Evidence};
use super::entry::{EntryName, entries};
use super::history::{ModuleChange, Role};
use super::modules::ModuleSlot;
use crate::manifest::Manifest;

/// The result of a rollback by order.
pub(crate) enum RollbackResult {
    /// The previous module serves again.
    RolledBack { serves: Digest, withdrawn: Digest },
    /// It served already.
    AlreadyRolledBack { serves: Digest, withdrawn: Digest },
    /// There is no previous module.
    NoPrevious { serves: Digest },
    /// The entry has no module.
    NoModule,
}

impl Deployments {
    /// True while a module is on trial.
    pub(crate) fn is_on_trial(&self) -> bool {
        self.all().any(Deployment::is_on_trial)
    }

    /// Judges every module on trial, and rolls back those that fail too often. True if one was rolled back.
    pub(crate) fn judge_trials(
        &mut self,
        manifest: &Manifest,
        evidence: impl Fn(&EntryName) -> Evidence,
    ) -> bool {
        let mut gone = Vec::new();
        for (entry, topic) in entries(manifest) {
            let slot = ModuleSlot::handler(entry);
            let Some(deployment) = self.at_mut(&slot) else { continue };
            if !deployment.is_on_trial() {
                continue;
            }
            let evidence = evidence(&slot.entry);
            let tally = |digest| evidence.tally(digest);
            let verdict = deployment.judge(&topic.rollback, evidence.is_held_back, tally);
            let Some(verdict) = verdict else { continue };
            if !verdict.is_withdrawn {
                log_passed(&slot.entry, &verdict);
            } else if deployment.roll_back().is_some() {
                gone.push((slot.entry, verdict));
            }
        }
        for (entry, verdict) in &gone {
            self.note_gone(entry, verdict);
        }
        !gone.is_empty()
    }

    fn note_gone(&mut self, entry: &EntryName, verdict: &TrialResult) {
        let (reason, (new, _), (before, _)) = (verdict.reason(), verdict.new, verdict.before);
        error!(topic = %entry, digest = %before.short(), withdrawn = %new.short(),
            "rolled back: {reason}; the previous module serves again, and the \
             new one is not deployed until its file or its entry in the manifest changes");
        self.history(entry).note(Role::Handler, ModuleChange::RolledBack, Some(&new), &reason);
    }

    /// Rolls back the handler of an entry.
    pub(crate) fn roll_back(&mut self, entry: EntryName) -> RollbackResult {
        let slot = ModuleSlot::handler(entry);
        let Some(deployment) = self.at_mut(&slot) else { return RollbackResult::NoModule };
        let gone = deployment.roll_back();
        let serves = deployment.digest();
        let Some(gone) = gone else {
            return match deployment.withdrawn() {
                Some(withdrawn) => RollbackResult::AlreadyRolledBack { serves, withdrawn },
                None => RollbackResult::NoPrevious { serves },
            };
        };
        warn!(topic = %slot.entry, digest = %serves.short(), withdrawn = %gone.short(),
            "rolled back by hand: the previous module serves again; the other is not deployed until its file \
             or its entry in the manifest changes");
        self.history(&slot.entry).note(
            Role::Handler,
            ModuleChange::RolledBackByHand,
            Some(&gone),
            "",
        );
        RollbackResult::RolledBack { serves, withdrawn: gone }
    }
}

/// Logs the end of a trial that the module passed.
fn log_passed(entry: &EntryName, verdict: &TrialResult) {
    let (reason, (new, _)) = (verdict.reason(), verdict.new);
    info!(topic = %entry, digest = %new.short(), "the new module stays: {reason}");
}

impl TrialResult {
    /// The failures of both modules, for people.
    fn reason(&self) -> String {
        let (new, before) = (self.new.1, self.before.1);
        format!(
            "it failed {} of {} jobs, the previous one {} of {}",
            new.failed, new.jobs, before.failed, before.jobs
        )
    }
}
