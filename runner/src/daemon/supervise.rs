//! Supervises the running daemon: handles one event after the other, until a signal stops it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use super::file_watch::Watch;
use super::signals::{Signal, Signals};
use super::{Supervisor, systemd};
use crate::background::topic_discovery::FOUND_MAX;
use crate::deploy::reload::Changes;
use crate::observe::fail_point;

/// The delay before topics that Redis refused are tried again.
const BIND_AGAIN: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Supervises until a signal ends it, then drains.
    pub(super) async fn supervise(mut self, mut signals: Signals) {
        let mut watch = Watch::new();
        watch.follow(&self.reloader.files());
        let look = Arc::clone(&self.inbox.look);
        let changed = async |watch: &Watch| {
            tokio::select! {
                () = watch.changed() => {}
                () = look.notified() => {}
            }
        };
        loop {
            match self.supervise_until(changed(&watch), &mut signals).await {
                Err(Signal::Stop) => break,
                Err(Signal::Reload) => self.reloading(),
                Ok(()) => {}
            }
            let Some(changes) = self.changes(&mut signals).await else { break };
            if self.apply(changes).await {
                watch.follow(&self.reloader.files());
            }
            systemd::ready();
        }
        tokio::select! {
            () = self.drain() => {}
            () = signals.stop() => warn!("stopped at once; the leases expire by themselves"),
        }
    }

    /// A signal asks for a reload, which also writes all limits to Redis again.
    fn reloading(&self) {
        systemd::reloading();
        self.services.outage.data_may_be_lost();
    }

    /// Finds the changed files; `None` if the daemon is to stop.
    async fn changes(&mut self, signals: &mut Signals) -> Option<Changes> {
        let look = self.reloader.look(&self.manifest);
        let look = self.supervise_to_end(look, signals).await?;
        let (reloader, sandbox) = (&self.reloader, &self.services.sandbox);
        let load = reloader.load(look, sandbox, &self.manifest, &self.deployments);
        self.supervise_to_end(load, signals).await
    }

    /// Handles events until `work` is ready; `None` if the daemon is to stop.
    async fn supervise_to_end<T>(
        &mut self,
        work: impl Future<Output = T>,
        signals: &mut Signals,
    ) -> Option<T> {
        let mut work = Box::pin(work);
        loop {
            match self.supervise_until(&mut work, signals).await {
                Ok(value) => return Some(value),
                Err(Signal::Stop) => return None,
                // A look is already running; a later change is found by the next one.
                Err(Signal::Reload) => self.reloading(),
            }
        }
    }

    /// Handles events until `over` is ready or a signal arrives.
    async fn supervise_until<T>(
        &mut self,
        over: impl Future<Output = T>,
        signals: &mut Signals,
    ) -> Result<T, Signal> {
        let mut over = pin!(over);
        let mut names = Vec::new();
        loop {
            tokio::select! {
                signal = signals.next() => return Err(signal),
                value = &mut over => return Ok(value),
                _ = self.inbox.found.recv_many(&mut names, FOUND_MAX) => {
                    self.bind_found(std::mem::take(&mut names)).await;
                }
                Some(order) = self.inbox.orders.recv() => {
                    fail_point::pass("supervisor");
                    self.follow(&order).await;
                }
                _ = self.inbox.judge_at.tick(), if self.deployments.is_on_trial() => {
                    self.judge_trials().await;
                }
                () = tokio::time::sleep(BIND_AGAIN), if self.topics.are_unbound || self.topics.are_sick => {
                    self.bind_all().await;
                }
            }
        }
    }

    /// Rolls back the modules on trial that fail too often.
    async fn judge_trials(&mut self) {
        let (topics, manifest) = (&self.topics, &self.manifest);
        let evidence = |entry: &_| Self::evidence(topics, manifest, entry);
        if self.deployments.judge_trials(manifest, evidence) {
            self.bind_all().await;
        }
    }
}
