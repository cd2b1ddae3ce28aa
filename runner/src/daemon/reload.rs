//! Reload: a changed manifest or module is read, checked and compiled beside the one in service, and
//! takes over only if it is good. Jobs that run finish on the module they started with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use duebox_job::TopicName;
use duebox_sandbox::Handler;
use tracing::{info, warn};

use super::{Daemon, fingerprints};
use crate::binding::Binding;
use crate::manifest::{Manifest, ManifestError, Topic};
use crate::module_file::{self, Fingerprint, ModuleError};
use crate::telemetry;
use crate::worker::Order;

/// What a look at the files found.
pub(super) struct Changes {
    /// The manifest, if it was changed.
    manifest: Option<Result<Manifest, ManifestError>>,
    /// Modules that were changed, or are asked for anew.
    modules: Vec<(TopicName, Topic, Result<Handler, ModuleError>)>,
    seen: BTreeMap<PathBuf, Option<Fingerprint>>,
}

impl Daemon {
    /// Looks at the files, and compiles what changed. Nothing that serves is touched.
    pub(super) async fn look_for_changes(&self) -> Changes {
        let mut seen = fingerprints(&self.manifest);
        let is_new = |file: &PathBuf, now: &Option<Fingerprint>| self.seen.get(file) != Some(now);
        let manifest = seen
            .get(&self.manifest.path)
            .filter(|now| is_new(&self.manifest.path, now))
            .map(|_| Manifest::load_with(&self.manifest.path, &self.surroundings));
        let wanted = match &manifest {
            Some(Ok(manifest)) => manifest,
            _ => &self.manifest,
        };
        seen.extend(fingerprints(wanted));
        let mut to_load = Vec::new();
        for (name, topic) in &wanted.topics {
            let Some(file) = &topic.handler else { continue };
            let file_is_new = is_new(file, seen.get(file).unwrap_or(&None));
            let serves_otherwise = match self.topics.get(name) {
                None => !self.manifest.topics.contains_key(name),
                Some(served) => {
                    let bound = served.binding.borrow();
                    bound.topic.handler != topic.handler
                        || bound.topic.limits != topic.limits
                        || bound.topic.grants != topic.grants
                }
            };
            if file_is_new || serves_otherwise {
                to_load.push((name.clone(), topic.clone()));
            }
        }
        let sandbox = Arc::clone(&self.sandbox);
        let load = move || {
            let load = |(name, topic): (TopicName, Topic)| {
                let handler = module_file::load(&sandbox, &name, &topic);
                (name, topic, handler)
            };
            to_load.into_iter().map(load).collect()
        };
        let modules = tokio::task::spawn_blocking(load).await.unwrap_or_else(|error| {
            warn!(%error, "loading modules failed; those in service stay");
            Vec::new()
        });
        Changes { manifest, modules, seen }
    }

    /// Puts what is good into service, and says what is not.
    pub(super) async fn apply_changes(&mut self, changes: Changes) {
        if changes.seen == self.seen && changes.manifest.is_none() && changes.modules.is_empty() {
            return;
        }
        self.seen = changes.seen;
        match changes.manifest {
            None => {}
            Some(Err(error)) => warn!("the manifest is refused, the one in service stays\n{error}"),
            Some(Ok(manifest)) => self.apply_manifest(manifest),
        }
        for (name, topic, handler) in changes.modules {
            match handler {
                Ok(handler) => self.apply_module(name, topic, handler),
                Err(error) if self.topics.contains_key(&name) => {
                    warn!(topic = %name, "{error}; the module in service stays");
                }
                Err(error) => warn!(topic = %name, "{error}; the topic waits for a good module"),
            }
        }
        self.tell_topics();
        let names: Vec<TopicName> = self.topics.keys().cloned().collect();
        if let Err(error) = self.queue.register(&names).await {
            self.outage.noticed(&error);
        }
    }

    fn apply_manifest(&mut self, manifest: Manifest) {
        for key in needs_restart(&self.manifest, &manifest) {
            warn!(key, "changed in the manifest: takes effect at the next start");
        }
        let gone: Vec<TopicName> = self
            .topics
            .keys()
            .filter(|name| manifest.topics.get(name).is_none_or(|topic| topic.handler.is_none()))
            .cloned()
            .collect();
        for name in gone {
            self.leave_topic(name);
        }
        let runner = &manifest.runner;
        if let Err(error) = telemetry::change(&runner.log, runner.log_format) {
            warn!(%error, "the log stays as it was");
        }
        let lease = runner.lease;
        for (name, served) in &self.topics {
            let Some(topic) = manifest.topics.get(name) else { continue };
            served.binding.send_if_modified(|bound| {
                let mut settings = topic.clone();
                // The module and what it was compiled with change together, when it is loaded.
                settings.handler = bound.topic.handler.clone();
                settings.limits = bound.topic.limits.clone();
                settings.grants = bound.topic.grants.clone();
                if settings == bound.topic && lease == bound.lease {
                    return false;
                }
                let handler = bound.handler.clone();
                *bound = Arc::new(Binding { topic: settings, handler, lease });
                true
            });
        }
        info!(topics = manifest.topics.len(), "the manifest is reloaded");
        self.manifest = manifest;
    }

    fn apply_module(&mut self, name: TopicName, topic: Topic, handler: Handler) {
        let Some(served) = self.topics.get(&name) else {
            return self.serve_topic(name, topic, handler);
        };
        let before = served.binding.borrow().handler.digest();
        let lease = self.manifest.runner.lease;
        let digest = handler.digest();
        served.binding.send_replace(Arc::new(Binding { topic, handler, lease }));
        if digest != before {
            info!(topic = %name, digest = %digest.short(), before = %before.short(),
                "a new module serves; jobs that run finish on the one before");
        }
    }

    /// In-flight jobs of a removed topic finish; the rest stay in Redis.
    fn leave_topic(&mut self, name: TopicName) {
        let Some(served) = self.topics.remove(&name) else { return };
        let until = Instant::now() + served.binding.borrow().topic.ttr;
        served.orders.send_replace(Order::Drain(until));
        info!(topic = %name, "unbound: the manifest names no handler for it any more; its jobs wait in Redis");
        self.leaving.retain(|(_, served)| !served.task.is_finished());
        self.leaving.push((name, served));
    }
}

/// Keys that were changed and are read at start only.
fn needs_restart(before: &Manifest, after: &Manifest) -> Vec<&'static str> {
    let mut keys = Vec::new();
    if before.redis != after.redis {
        keys.push("[redis]");
    }
    if before.runner.threads != after.runner.threads {
        keys.push("runner.threads");
    }
    if before.runner.max_jobs != after.runner.max_jobs {
        keys.push("runner.max_jobs");
    }
    keys
}
