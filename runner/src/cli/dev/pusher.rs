//! Pushes samples to the Redis of the daemon, under ids that no other session has.

use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::Queue;
use tokio::time::timeout;

use super::samples::Samples;
use crate::cli::support::failure::Failure;
use crate::cli::support::target;
use crate::manifest::Manifest;
use crate::service::refused_push;

/// How long a push may take: keys are not read meanwhile.
const PUSH_MAX: Duration = Duration::from_secs(10);

/// A connection, once something was pushed, and how ids are made.
pub(super) struct Pusher {
    queue: Option<Queue>,
    session: u16,
    pushed: u64,
}

impl Default for Pusher {
    fn default() -> Self {
        Self { queue: None, session: fastrand::u16(..), pushed: 0 }
    }
}

impl Pusher {
    /// Pushes the selected sample; returns what was done, for people.
    ///
    /// # Errors
    /// [`Failure`] if Redis fails or refuses the job.
    pub(super) async fn push(
        &mut self,
        manifest: &Manifest,
        samples: &Samples,
    ) -> Result<String, Failure> {
        let pushed = timeout(PUSH_MAX, self.try_push(manifest, samples)).await;
        pushed.unwrap_or_else(|_| {
            let message = format!("Redis did not reply within {} s", PUSH_MAX.as_secs());
            Err(Failure::failed(message, "check Redis"))
        })
    }

    async fn try_push(
        &mut self,
        manifest: &Manifest,
        samples: &Samples,
    ) -> Result<String, Failure> {
        let topic = &samples.topic;
        let queue = match self.queue.take() {
            Some(queue) => queue,
            None => target::connect_to_topic(manifest, topic).await?,
        };
        self.pushed += 1;
        let id = JobId::new(format!("dev-{:04x}-{}", self.session, self.pushed));
        let id = id.map_err(|error| Failure::failed(error.to_string(), "report this"))?;
        let (sample, settings) = (samples.selected(), target::topic(manifest, topic)?);
        let answers = queue.push(topic, &[sample.job(id.clone())?], settings.if_exists).await?;
        // A connection that failed is not used again.
        self.queue = Some(queue);
        match answers.first().copied().and_then(refused_push::reason) {
            None => Ok(format!("{id}  {}", sample.text())),
            Some(why) => Err(Failure::failed(format!("{id} was not pushed: {why}"), "")),
        }
    }
}
