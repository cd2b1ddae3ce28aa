//! Orders of operators: each is followed at once, and answered over Redis.

use std::sync::Arc;

use duebox_job::TopicName;
use duebox_sandbox::Digest;
use tracing::{debug, warn};

use super::Supervisor;
use crate::background::control_channel::{Answer, Came, Order, Wish};
use crate::deploy::entry::entry_of;
use crate::deploy::rollback::RolledBack;

/// What came of an order: the module that serves now, and the one that does not serve any more.
type Result = (Came, Option<Digest>, Option<Digest>);

impl Supervisor {
    /// Does what an order says, and answers it.
    pub(super) async fn follow(&mut self, text: &str) {
        let Some(order) = Order::read(text) else {
            debug!("something that is no order came over the channel of orders; it is ignored");
            return;
        };
        let (result, digest, before) = match order.wish() {
            Wish::Rollback { topic } => self.roll_back(topic).await,
            Wish::Reload { topic } => self.look_at_files(topic),
            Wish::Unknown => (Came::Unknown, None, None),
        };
        let hex = |digest: Digest| digest.to_string();
        let runner = self.services.runner_id.to_string();
        let answer = Answer { runner, result, digest: digest.map(hex), before: before.map(hex) };
        let queue = self.services.queue.clone();
        // Redis may be slow to take it; the daemon does not wait for that.
        tokio::spawn(async move {
            let text = serde_json::to_string(&answer).unwrap_or_default();
            if let Err(error) = queue.reply_to_control(&order.id, &text).await {
                warn!(%error, "an order was followed, but its answer did not reach Redis");
            }
        });
    }

    /// Has the files looked at. The answer names the module that serves until then.
    fn look_at_files(&self, topic: &str) -> Result {
        let name = TopicName::new(topic).ok();
        let Some(served) = name.and_then(|name| self.topics.served.get(&name)) else {
            return (Came::NotServed, None, None);
        };
        self.inbox.look.notify_one();
        let serving = served.workers.as_ref();
        let digest = serving.map(|workers| workers.binding.borrow().handlers.main.digest());
        (Came::Looks, digest, None)
    }

    async fn roll_back(&mut self, topic: &str) -> Result {
        let served =
            TopicName::new(topic).ok().filter(|name| self.topics.served.contains_key(name));
        let manifest = Arc::clone(&self.manifest);
        let entry = served.and_then(|name| Some(entry_of(&manifest, &name)?.0));
        let Some(entry) = entry else { return (Came::NotServed, None, None) };
        match self.deployments.roll_back(entry) {
            RolledBack::NoModule => (Came::Pulled, None, None),
            RolledBack::NothingBefore { serves } => (Came::NothingBefore, Some(serves), None),
            RolledBack::Before { serves, withdrawn } => {
                (Came::RolledBackBefore, Some(serves), Some(withdrawn))
            }
            RolledBack::Now { serves, withdrawn } => {
                self.bind_all().await;
                (Came::RolledBack, Some(serves), Some(withdrawn))
            }
        }
    }
}
