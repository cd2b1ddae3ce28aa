//! A deployment: one module serves at each place of the manifest, and the one before is kept until the next
//! swap, so that it can come back at once.
//!
//! A new module is on trial for a while: it is compared with the one before by the results of their
//! attempts. What was rolled back is not taken again until its file, or its entry in the manifest, changes.

use std::time::{Duration, Instant};

use duebox_sandbox::Digest;

use super::modules::{Module, Recipe};
use crate::manifest::{Rollback, Topic};
use crate::observe::module_stats::Sums;

/// The module that serves at a place, and the one that served there before.
pub(crate) struct Deployment {
    pub(crate) module: Module,
    previous: Option<Module>,
    trial: Option<Trial>,
    withdrawn: Option<Withdrawn>,
}

/// A new module while it is watched.
struct Trial {
    until: Instant,
    /// What its build had done already when it came: it may have served before.
    began_with: AttemptCounts,
}

/// A module that was rolled back.
struct Withdrawn {
    digest: Digest,
    recipe: Recipe,
}

/// How many attempts a module has ended, and how many of them failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AttemptCounts {
    pub(crate) jobs: u64,
    pub(crate) failed: u64,
}

/// What comes of a trial: each module with what it has done.
pub(crate) struct TrialResult {
    /// The new one fails too often, and must go; else its time is over, and it stays.
    pub(crate) goes: bool,
    pub(crate) new: (Digest, AttemptCounts),
    pub(crate) before: (Digest, AttemptCounts),
}

impl Deployment {
    /// The first module of a place.
    pub(crate) fn new(module: Module) -> Self {
        Self { module, previous: None, trial: None, withdrawn: None }
    }

    /// The build that serves.
    pub(crate) fn digest(&self) -> Digest {
        self.module.handler.digest()
    }

    /// True if a recipe asks for nothing new, as long as its file is the same.
    pub(crate) fn fits(&self, recipe: &Recipe) -> bool {
        match &self.withdrawn {
            Some(withdrawn) => withdrawn.recipe == *recipe,
            None => self.module.fits(recipe),
        }
    }

    /// Gives the modules the secrets as they are now. True if they are others than before.
    pub(crate) fn give_secrets(&mut self, topic: &Topic) -> bool {
        if let Some(before) = &mut self.previous {
            before.give_secrets(topic);
        }
        self.module.give_secrets(topic)
    }

    /// Replaces the module. Another build than the one that served goes on trial for this long. True if it is
    /// another.
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

    /// Puts the module before back. The digest of the one that goes; `None` if there is none before.
    pub(crate) fn roll_back(&mut self) -> Option<Digest> {
        let before = self.previous.take()?;
        let left = std::mem::replace(&mut self.module, before);
        let digest = left.handler.digest();
        self.withdrawn = Some(Withdrawn { digest, recipe: left.into_recipe() });
        self.trial = None;
        Some(digest)
    }

    /// The build that comes back at a rollback.
    pub(crate) fn previous(&self) -> Option<Digest> {
        self.previous.as_ref().map(|before| before.handler.digest())
    }

    /// The build that was rolled back, as long as nothing else was asked for.
    pub(crate) fn withdrawn(&self) -> Option<Digest> {
        self.withdrawn.as_ref().map(|withdrawn| withdrawn.digest)
    }

    pub(crate) fn is_on_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Judges a module on trial by what is known of each build; none as long as nothing is decided. Where
    /// the breaker holds jobs back, so many as `min_jobs` will not come: what has ended must do.
    pub(crate) fn judge(
        &mut self,
        rule: &Rollback,
        is_held_back: bool,
        of: impl Fn(Digest) -> AttemptCounts,
    ) -> Option<TrialResult> {
        let (trial, before) = (self.trial.as_ref()?, self.previous.as_ref()?);
        let (new_digest, old_digest) = (self.digest(), before.handler.digest());
        let (new, old) = (of(new_digest).since(trial.began_with), of(old_digest));
        let enough = if is_held_back { 1 } else { rule.min_jobs };
        let goes = new.jobs >= u64::from(enough) && new.is_worse_than(old, rule);
        if !goes && Instant::now() < trial.until {
            return None;
        }
        self.trial = None;
        Some(TrialResult { goes, new: (new_digest, new), before: (old_digest, old) })
    }
}

impl AttemptCounts {
    /// What was done beyond an earlier count; a count that was forgotten meanwhile began anew.
    fn since(self, earlier: Self) -> Self {
        if earlier.jobs > self.jobs {
            return self;
        }
        Self { jobs: self.jobs - earlier.jobs, failed: self.failed.saturating_sub(earlier.failed) }
    }

    /// Whether it fails too often: more than `ratio` times as often as the other, which counts as one
    /// failure in `min_jobs` if it fails more rarely.
    fn is_worse_than(self, other: Self, rule: &Rollback) -> bool {
        let floor = 1.0 / f64::from(rule.min_jobs.max(1));
        rule.min_jobs > 0 && self.rate() > rule.ratio * other.rate().max(floor)
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

    const RULE: Rollback = Rollback { window: Duration::from_secs(60), min_jobs: 50, ratio: 3.0 };

    fn tally(failed: u64, jobs: u64) -> AttemptCounts {
        AttemptCounts { jobs, failed }
    }

    #[test]
    fn a_module_goes_if_it_fails_far_more_often_than_the_one_before() {
        let is_worse = |new, old| AttemptCounts::is_worse_than(new, old, &RULE);
        // Against one that never failed, the limit is ratio / min_jobs: 6 %.
        assert!(is_worse(tally(4, 50), tally(0, 1_000)));
        assert!(!is_worse(tally(3, 50), tally(0, 1_000)));
        assert!(is_worse(tally(4, 50), tally(0, 0)));
        // As bad as before, or not three times as bad.
        assert!(!is_worse(tally(50, 50), tally(500, 1_000)));
        assert!(!is_worse(tally(30, 100), tally(100, 1_000)));
        assert!(is_worse(tally(31, 100), tally(100, 1_000)));
        let off = Rollback { min_jobs: 0, ..RULE };
        assert!(!tally(100, 100).is_worse_than(tally(0, 100), &off));
    }

    #[test]
    fn a_build_that_served_before_is_judged_by_what_it_does_now() {
        assert_eq!(tally(5, 70).since(tally(4, 20)), tally(1, 50));
        assert_eq!(tally(1, 3).since(tally(4, 20)), tally(1, 3));
    }
}
