//! Applies changed files: a valid manifest and valid modules go into service, and running jobs finish on
//! their module. What is refused changes nothing in service.

use std::sync::Arc;

use tracing::{info, warn};

use super::Supervisor;
use crate::deploy::entry::entries;
use crate::deploy::reload::Changes;
use crate::manifest::{Manifest, ManifestError};
use crate::observe::log;
use crate::observe::log::follow::following;
use crate::report::status::ManifestRefusal;

impl Supervisor {
    /// Applies what is valid, and logs what is not; the lines share a `reload_id`. False if nothing has
    /// changed.
    pub(super) async fn apply(&mut self, changes: Changes) -> bool {
        if !self.reloader.note(&changes) {
            return false;
        }
        let id = format!("{:08x}", fastrand::u32(..));
        following("reload_id", id, self.apply_noted(changes)).await;
        true
    }

    async fn apply_noted(&mut self, changes: Changes) {
        match changes.manifest {
            None => {}
            Some(Err(error)) => self.refuse_manifest(&error),
            Some(Ok(manifest)) => self.apply_manifest(manifest),
        }
        let (topics, manifest) = (&self.topics, &self.manifest);
        let evidence = |entry: &_| Self::evidence(topics, manifest, entry);
        self.deployments.deploy(changes.modules, manifest, evidence);
        self.bind_all().await;
        self.published.topic_discovery.restart_scan();
    }

    fn refuse_manifest(&mut self, error: &ManifestError) {
        warn!("the manifest is refused; the one in service stays\n{error}");
        self.services.records.health.record_refused_manifest(&error.to_string());
        self.published.refused.send_modify(|known| {
            *known = Some(ManifestRefusal::of(error, known.as_ref()));
        });
    }

    fn apply_manifest(&mut self, manifest: Manifest) {
        self.services.sandbox.limit_memory(manifest.runner.memory);
        for key in needs_restart(&self.manifest, &manifest) {
            warn!(key, "changed in the manifest; takes effect at the next start");
        }
        let (runner, records) = (&manifest.runner, &self.services.records);
        if let Err(error) = log::change(&runner.log, runner.log_format) {
            warn!(%error, "the log settings are unchanged");
        }
        self.deployments.follow_manifest(&self.manifest, &manifest);
        records.traces.send_to(runner.otlp.as_ref());
        records.events.keep(runner.events);
        self.published.refused.send_replace(None);
        self.published.publish_schedules(&manifest);
        info!(topics = entries(&manifest).count(), "the manifest is reloaded");
        records.health.record_applied_manifest();
        self.topics.pattern_limit_logged = false;
        self.manifest = Arc::new(manifest);
    }
}

/// Changed keys that are read only at start.
fn needs_restart(before: &Manifest, after: &Manifest) -> Vec<String> {
    let mut keys = Vec::new();
    if before.redis != after.redis {
        keys.push("[redis]".to_owned());
    }
    if before.runner.threads != after.runner.threads {
        keys.push("runner.threads".to_owned());
    }
    if before.runner.max_jobs != after.runner.max_jobs {
        keys.push("runner.max_jobs".to_owned());
    }
    if before.runner.cache != after.runner.cache {
        keys.push("runner.cache".to_owned());
    }
    if before.runner.compile != after.runner.compile {
        keys.push("runner.compile_memory, runner.compile_time".to_owned());
    }
    if before.runner.languages != after.runner.languages {
        keys.push("runner.languages".to_owned());
    }
    if before.runner.python_path != after.runner.python_path {
        keys.push("runner.python_path".to_owned());
    }
    if before.server.listen != after.server.listen {
        keys.push("server.listen".to_owned());
    }
    for (entry, topic) in entries(after) {
        let old = entries(before).find(|(old, _)| *old == entry);
        if old.is_some_and(|(_, old)| old.shards != topic.shards) {
            keys.push(format!("topics.\"{entry}\".shards"));
        }
    }
    keys
}
