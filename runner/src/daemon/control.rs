//! Follows orders of operators at once, and replies over Redis.

use std::sync::Arc;

use duebox_job::TopicName;
use duebox_sandbox::Digest;
use tracing::{debug, warn};

use super::Supervisor;
use crate::background::control_channel::{Order, OrderKind, OrderResult, Reply};
use crate::deploy::entry::entry_of;
use crate::deploy::rollback::RollbackResult;
use crate::observe::supervision::TaskKind;

/// The result of an order, the module that serves now, and the one that no longer serves.
type Result = (OrderResult, Option<Digest>, Option<Digest>);

impl Supervisor {
    /// Follows an order, and replies.
    pub(super) async fn follow(&mut self, text: &str) {
        let Some(order) = Order::read(text) else {
            debug!("ignored an invalid message on the control channel");
            return;
        };
        let (result, digest, before) = match order.kind() {
            OrderKind::Rollback { topic } => self.roll_back(topic).await,
            OrderKind::Reload { topic } => self.look_at_files(topic),
            OrderKind::Unknown => (OrderResult::Unknown, None, None),
        };
        let hex = |digest: Digest| digest.to_string();
        let runner = self.services.runner_id.to_string();
        let reply = Reply { runner, result, digest: digest.map(hex), before: before.map(hex) };
        let queue = self.services.queue.clone();
        let supervision = self.services.records.health.supervision().clone();
        let send = async move {
            let text = serde_json::to_string(&reply).unwrap_or_default();
            if let Err(error) = queue.reply_to_control(&order.id, &text).await {
                warn!(%error, "an order was followed, but its reply did not reach Redis");
            }
        };
        // Redis may be slow; the supervisor does not wait for it.
        tokio::spawn(async move { supervision.contain(TaskKind::ControlReply, send).await });
    }

    /// Triggers a look at the files. The reply names the module that serves until then.
    fn look_at_files(&self, topic: &str) -> Result {
        let name = TopicName::new(topic).ok();
        let Some(served) = name.and_then(|name| self.topics.served.get(&name)) else {
            return (OrderResult::NotServed, None, None);
        };
        self.inbox.look.notify_one();
        let serving = served.workers.as_ref();
        let digest = serving.map(|workers| workers.binding.borrow().handlers.main.digest());
        (OrderResult::Looks, digest, None)
    }

    async fn roll_back(&mut self, topic: &str) -> Result {
        let served =
            TopicName::new(topic).ok().filter(|name| self.topics.served.contains_key(name));
        let manifest = Arc::clone(&self.manifest);
        let entry = served.and_then(|name| Some(entry_of(&manifest, &name)?.0));
        let Some(entry) = entry else { return (OrderResult::NotServed, None, None) };
        match self.deployments.roll_back(entry) {
            RollbackResult::NoModule => (OrderResult::Pulled, None, None),
            RollbackResult::NoPrevious { serves } => {
                (OrderResult::NothingBefore, Some(serves), None)
            }
            RollbackResult::AlreadyRolledBack { serves, withdrawn } => {
                (OrderResult::RolledBackBefore, Some(serves), Some(withdrawn))
            }
            RollbackResult::RolledBack { serves, withdrawn } => {
                self.bind_all().await;
                (OrderResult::RolledBack, Some(serves), Some(withdrawn))
            }
        }
    }
}
