//! Asks daemons for the fate of pushes without an answer, so that these are judged too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::ledger::{Ledger, Name};
use crate::load::{Addresses, any};

/// The longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long a job is asked for until a daemon can tell.
const ASK_MAX: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(50);

/// Asks for one job after the other, while the load goes on.
pub(crate) struct Asker {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) addresses: Addresses,
    pub(crate) client: Client,
}

impl Asker {
    /// Asks until all producers have ended.
    pub(crate) async fn run(self, mut unknown: UnboundedReceiver<Name>) {
        while let Some(name) = unknown.recv().await {
            self.ask(&name).await;
        }
    }

    async fn ask(&self, name: &Name) {
        let began = Instant::now();
        while began.elapsed() < ASK_MAX {
            if let Some(is_found) = self.is_found(name).await {
                return self.ledger.found(name, is_found);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether the job is live or dead; `None` if no daemon can tell now.
    async fn is_found(&self, name: &Name) -> Option<bool> {
        let address = any(&self.addresses)?;
        let url = format!("http://{address}/v1/topics/{}/jobs/{}", name.topic, name.id);
        match self.client.get(url).timeout(ANSWER_MAX).send().await.ok()?.status() {
            StatusCode::OK => Some(true),
            StatusCode::NOT_FOUND => Some(false),
            _ => None,
        }
    }
}
