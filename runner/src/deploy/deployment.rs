//! A deployment: the module that serves an entry's handler or canary. The previous module is kept until the
//! next change, so that a rollback takes effect at once.
//!
//! A new module is on trial for a while: the results of its attempts are compared with those of the
//! previous one. A withdrawn module is not deployed again until its file or its entry in the manifest
//! changes.

use std::num::NonZero;
use std::time::{Duration, Instant};

use duebox_sandbox::Digest;

use super::modules::{Module, Recipe};
use crate::manifest::{Rollback, Topic};
use crate::observe::module_stats::Sums;

/// The module that serves, and the previous one.
pub(crate) struct Deployment {
    pub(crate) module: Module,
    previous: Option<Module>,
    trial: Option<Trial>,
    withdrawn: Option<Withdrawn>,
}

/// A new module that is being compared with the previous one.
struct Trial {
    until: Instant,
    /// The attempts of this build before the trial: it may have served earlier.
    began_with: AttemptCounts,
}

/// A module that was rolled back.
struct Withdrawn {
    digest: Digest,
    recipe: Recipe,
}

/// How many attempts of a module have ended, and how many of them failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AttemptCounts {
    pub(crate) jobs: u64,
    pub(crate) failed: u64,
}

/// The result of a trial, with the attempts of both modules.
pub(crate) struct TrialResult {
    /// True if the new module failed too often and must be rolled back; false if its trial is over.
    pub(crate) is_withdrawn: bool,
    pub(crate) new: (Digest, AttemptCounts),
    pub(crate) before: (Digest, AttemptCounts),
}

impl Deployment {
    /// Creates a deployment of a first module.
    pub(crate) fn new(module: Module) -> Self {
        Self { module, previous: None, trial: None, withdrawn: None }
    }

    /// The digest of the module that serves.
    pub(crate) fn digest(&self) -> Digest {
        self.module.handler.digest()
    }

    /// True if a recipe needs no new module, as long as its file is unchanged.
    pub(crate) fn fits(&self, recipe: &Recipe) -> bool {
        match &self.withdrawn {
            Some(withdrawn) => withdrawn.recipe == *recipe,
            None => self.module.fits(recipe),
        }
    }

    /// Updates the secrets of the modules; true if they changed.
    pub(crate) fn give_secrets(&mut self, topic: &Topic) -> bool {
        if let Some(before) = &mut self.previous {
            before.give_secrets(topic);
        }
        self.module.give_secrets(topic)
    }

    /// Replaces the module; true if the build is another one. It then goes on trial for `window`.
    pub(crate) fn replace(
        &mut self,
        module: Module,
        window: Duration,
        began_with: AttemptCounts,
    ) -> bool {
        self.withdrawn = None;
        let is_other = module.handler.digest() != self.digest();
        let left = std::mem::replace(&mut self.module, module);
        if is_other {
            self.previous = Some(left);
            self.trial = Some(Trial { until: Instant::now() + window, began_with });
        }
        is_other
    }

    /// Rolls back to the previous module. Returns the digest of the withdrawn one; `None` without a
    /// previous module.
    pub(crate) fn roll_back(&mut self) -> Option<Digest> {
        let before = self.previous.take()?;
        let left = std::mem::replace(&mut self.module, before);
        let digest = left.handler.digest();
        self.withdrawn = Some(Withdrawn { digest, recipe: left.into_recipe() });
        self.trial = None;
        Some(digest)
    }

    /// The digest of the module that a rollback restores.
    pub(crate) fn previous(&self) -> Option<Digest> {
        self.previous.as_ref().map(|before| before.handler.digest())
    }

    /// The digest of the module that was rolled back, until another one is deployed.
    pub(crate) fn withdrawn(&self) -> Option<Digest> {
        self.withdrawn.as_ref().map(|withdrawn| withdrawn.digest)
    }

    pub(crate) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Judges the module on trial by the attempts of both builds; `None` while the trial goes on. While the
    /// breaker holds jobs back, `min_jobs` will not be reached, so one attempt is enough.
    pub(crate) fn judge(
        &mut self,
        rule: &Rollback,
        is_held_back: bool,
        of: impl Fn(Digest) -> AttemptCounts,
    ) -> Option<TrialResult> {
        let (trial, before) = (self.trial.as_ref()?, self.previous.as_ref()?);
        let (new_digest, old_digest) = (self.digest(), before.handler.digest());
        let (new, old) = (of(new_digest).since(trial.began_with), of(old_digest));
        let enough = rule.min_jobs.filter(|_| !is_held_back).map_or(1, NonZero::get);
        let is_withdrawn = new.jobs >= u64::from(enough) && new.is_worse_than(old, rule);
        if !is_withdrawn && Instant::now() < trial.until {
            return None;
        }
        self.trial = None;
        Some(TrialResult { is_withdrawn, new: (new_digest, new), before: (old_digest, old) })
    }
}

impl AttemptCounts {
    /// The attempts since an earlier count. If the count was dropped meanwhile, it starts at zero again.
    fn since(self, earlier: Self) -> Self {
        if earlier.jobs > self.jobs {
            return self;
        }
        Self { jobs: self.jobs - earlier.jobs, failed: self.failed.saturating_sub(earlier.failed) }
    }

    /// Whether the failure rate is more than `ratio` times that of the other module, which counts as at
    /// least one failure in `min_jobs`.
    fn is_worse_than(self, other: Self, rule: &Rollback) -> bool {
        let Some(min_jobs) = rule.min_jobs else { return false };
        let floor = 1.0 / f64::from(min_jobs.get());
        self.rate() > rule.ratio * other.rate().max(floor)
    }

    fn rate(self) -> f64 {
        self.failed as f64 / self.jobs.max(1) as f64
    }
}

impl std::ops::AddAssign<&Sums> for AttemptCounts {
    fn add_assign(&mut self, sums: &Sums) {
        self.jobs = self.jobs.saturating_add(sums.jobs);
        self.failed = self.failed.saturating_add(sums.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rollback =
        Rollback { window: Duration::from_secs(60), min_jobs: NonZero::new(50), ratio: 3.0 };

    fn tally(failed: u64, jobs: u64) -> AttemptCounts {
        AttemptCounts { jobs, failed }
    }

    #[test]
    fn a_module_is_withdrawn_if_it_fails_far_more_often_than_the_previous_one() {
        let is_worse = |new, old| AttemptCounts::is_worse_than(new, old, &RULE);
        // Against a module that never failed, the limit is ratio / min_jobs: 6 %.
        assert!(is_worse(tally(4, 50), tally(0, 1_000)));
        assert!(!is_worse(tally(3, 50), tally(0, 1_000)));
        assert!(is_worse(tally(4, 50), tally(0, 0)));
        // The same rate, or less than three times as high.
        assert!(!is_worse(tally(50, 50), tally(500, 1_000)));
        assert!(!is_worse(tally(30, 100), tally(100, 1_000)));
        assert!(is_worse(tally(31, 100), tally(100, 1_000)));
        let off = Rollback { min_jobs: None, ..RULE };
        assert!(!tally(100, 100).is_worse_than(tally(0, 100), &off));
    }

    #[test]
    fn a_build_that_served_before_is_judged_by_new_attempts_only() {
        assert_eq!(tally(5, 70).since(tally(4, 20)), tally(1, 50));
        assert_eq!(tally(1, 3).since(tally(4, 20)), tally(1, 3));
    }
}
