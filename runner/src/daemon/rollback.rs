//! Rollback: the module before serves again, because the new one fails too often while it is on trial, or
//! because somebody says so. The topics of a pattern share their module, so they go back together.

use std::sync::Arc;

use duebox_job::TopicName;
use duebox_sandbox::Digest;
use tracing::{debug, error, info, warn};

use super::Daemon;
use super::entry::{EntryName, entries, entry_of};
use super::modules::Place;
use super::seat::{Seat, Tally, Verdict};
use super::served::Workers;
use crate::breaker::Standing;
use crate::figures::Figures;
use crate::history::{Fate, Role};
use crate::manifest::Rollback;
use crate::orders::{Answer, Came, Order, Wish};

impl Daemon {
    /// True while a module is on trial.
    pub(super) fn is_on_trial(&self) -> bool {
        self.modules.values().any(Seat::is_on_trial)
    }

    /// Judges every module that is on trial; one that fails too often goes.
    pub(super) async fn judge_trials(&mut self) {
        let mut gone = Vec::new();
        let manifest = Arc::clone(&self.manifest);
        for (entry, topic) in entries(&manifest) {
            let place = Place::handler(entry);
            let figures = self.figures_of(&place.entry);
            let is_held_back = self.is_held_back(&place.entry);
            let Some(seat) = self.modules.get_mut(&place) else { continue };
            let of = |digest| tally(&figures, digest);
            let verdict = seat.judge(&topic.rollback, is_held_back, of);
            let Some(verdict) = verdict else { continue };
            if !verdict.goes {
                tell_stays(&place.entry, &verdict);
            } else if seat.go_back().is_some() {
                gone.push((place.entry, verdict));
            }
        }
        if gone.is_empty() {
            return;
        }
        for (entry, verdict) in gone {
            self.tell_gone(&entry, &verdict);
        }
        self.bind_all().await;
    }

    fn tell_gone(&mut self, entry: &EntryName, verdict: &Verdict) {
        let (reason, (new, _), (before, _)) = (verdict.told(), verdict.new, verdict.before);
        error!(topic = %entry, digest = %before.short(), withdrawn = %new.short(),
            "rolled back: the new module serves no more, {reason}; the one before serves again, and the \
             new one is not taken until its file or its entry in the manifest changes");
        self.history(entry).note(Role::Handler, Fate::RolledBack, Some(&new), &reason);
    }

    /// The rule that an entry's new modules are judged by.
    pub(super) fn rule_of(&self, entry: &EntryName) -> Rollback {
        let found = entries(&self.manifest).find(|(name, _)| name == entry);
        found.map_or_else(Rollback::default, |(_, topic)| topic.rollback)
    }

    /// The figures of every topic that an entry serves.
    pub(super) fn figures_of(&self, entry: &EntryName) -> Vec<Arc<Figures>> {
        self.workers_of(entry).map(|workers| Arc::clone(&workers.figures)).collect()
    }

    /// True if the breaker of a topic that an entry serves is not closed.
    fn is_held_back(&self, entry: &EntryName) -> bool {
        self.workers_of(entry).any(|workers| workers.breaker.standing() != Standing::Closed)
    }

    fn workers_of(&self, entry: &EntryName) -> impl Iterator<Item = &Workers> {
        let by_entry = self.topics.iter().filter(|(name, _)| {
            entry_of(&self.manifest, name).is_some_and(|(served_by, _)| served_by == *entry)
        });
        by_entry.filter_map(|(_, served)| served.workers.as_ref())
    }

    /// Does what an order says, and answers it.
    pub(super) async fn obey(&mut self, text: &str) {
        let Some(order) = Order::read(text) else {
            debug!("something that is no order came over the channel of orders; it is ignored");
            return;
        };
        let (result, digest, before) = match order.wish() {
            Wish::Rollback { topic } => self.roll_back_by_hand(topic).await,
            Wish::Reload { topic } => self.look_by_hand(topic),
            Wish::Unknown => (Came::Unknown, None, None),
        };
        let hex = |digest: Digest| digest.to_string();
        let runner = self.runner_id.to_string();
        let answer = Answer { runner, result, digest: digest.map(hex), before: before.map(hex) };
        let queue = self.queue.clone();
        // Redis may be slow to take it; the daemon does not wait for that.
        tokio::spawn(async move {
            let text = serde_json::to_string(&answer).unwrap_or_default();
            if let Err(error) = queue.reply_to_control(&order.id, &text).await {
                warn!(%error, "an order was followed, but its answer did not reach Redis");
            }
        });
    }

    /// Has the files looked at, and says what serves until then.
    fn look_by_hand(&self, topic: &str) -> (Came, Option<Digest>, Option<Digest>) {
        let name = TopicName::new(topic).ok();
        let Some(served) = name.and_then(|name| self.topics.get(&name)) else {
            return (Came::NotServed, None, None);
        };
        self.look.notify_one();
        let serving = served.workers.as_ref();
        let digest = serving.map(|workers| workers.binding.borrow().handlers.main.digest());
        (Came::Looks, digest, None)
    }

    async fn roll_back_by_hand(&mut self, topic: &str) -> (Came, Option<Digest>, Option<Digest>) {
        let served = TopicName::new(topic).ok().filter(|name| self.topics.contains_key(name));
        let entry = served.and_then(|name| Some(entry_of(&self.manifest, &name)?.0));
        let Some(entry) = entry else { return (Came::NotServed, None, None) };
        let place = Place::handler(entry);
        let Some(seat) = self.modules.get_mut(&place) else { return (Came::Pulled, None, None) };
        let gone = seat.go_back();
        let (serves, withdrawn) = (seat.digest(), seat.withdrawn());
        let Some(gone) = gone else {
            let came = withdrawn.map_or(Came::NothingBefore, |_| Came::RolledBackBefore);
            return (came, Some(serves), withdrawn);
        };
        warn!(topic = %place.entry, digest = %serves.short(), withdrawn = %gone.short(),
            "rolled back by hand: the module before serves again; the other is not taken until its file \
             or its entry in the manifest changes");
        self.history(&place.entry).note(Role::Handler, Fate::RolledBackByHand, Some(&gone), "");
        self.bind_all().await;
        (Came::RolledBack, Some(serves), Some(gone))
    }
}

/// Says that a module is on trial no more.
fn tell_stays(entry: &EntryName, verdict: &Verdict) {
    let (reason, (new, _)) = (verdict.told(), verdict.new);
    info!(topic = %entry, digest = %new.short(), "the new module stays: {reason}");
}

impl Verdict {
    /// What each of the two did, for people.
    fn told(&self) -> String {
        let (new, before) = (self.new.1, self.before.1);
        format!(
            "it failed {} of {} jobs, the one before {} of {}",
            new.failed, new.jobs, before.failed, before.jobs
        )
    }
}

/// What a build has done on some topics.
pub(super) fn tally(figures: &[Arc<Figures>], digest: Digest) -> Tally {
    let mut tally = Tally::default();
    figures.iter().for_each(|figures| tally += &figures.of(digest));
    tally
}
