//! What the status reports: every topic that handlers serve, and every entry without a valid module, each
//! with the history of its modules.

use std::collections::BTreeMap;

use super::Supervisor;
use crate::deploy::deployment::Deployment;
use crate::deploy::entry::{EntryName, entries, entry_of};
use crate::deploy::modules::ModuleSlot;
use crate::report::status::{AllWatched, Serving, Watched};

impl Supervisor {
    /// The topics to report, as they are now.
    pub(super) fn watched(&self) -> AllWatched {
        let mut all = BTreeMap::new();
        for (name, served) in &self.topics.served {
            let entry = entry_of(&self.manifest, name).map(|(entry, _)| entry);
            if let (Some(entry), Some(serving)) = (entry, served.serving()) {
                all.insert(
                    name.to_string(),
                    self.watched_by(name.to_string(), entry, Some(serving)),
                );
            }
        }
        for (entry, topic) in entries(&self.manifest) {
            let has_module = self.deployments.at(&ModuleSlot::handler(entry.clone())).is_some();
            if topic.handler.is_some() && !has_module {
                let name = entry.to_string();
                all.entry(name.clone()).or_insert_with(|| self.watched_by(name, entry, None));
            }
        }
        all.into_values().collect()
    }

    fn watched_by(&self, topic: String, entry: EntryName, serving: Option<Serving>) -> Watched {
        let history = self.deployments.history_of(&entry).cloned().unwrap_or_default();
        let entry_name = entry.to_string();
        let deployment = self.deployments.at(&ModuleSlot::handler(entry));
        let (before, withdrawn) =
            (deployment.and_then(Deployment::previous), deployment.and_then(Deployment::withdrawn));
        Watched { topic, entry: entry_name, serving, before, withdrawn, history }
    }
}
