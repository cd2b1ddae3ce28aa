//! Keeps what the last attempts of dead jobs read, after their verdicts are settled.

use duebox_queue::Settled;
use tracing::warn;

use super::Worker;
use super::unsettled::JudgedJob;

impl Worker {
    /// Takes the recordings of the jobs that are dead.
    pub(super) fn collect_recordings(&mut self, judged: &mut [JudgedJob], words: &[Settled]) {
        for (job, settled) in judged.iter_mut().zip(words) {
            if let Some(recording) = job.recording.take()
                && *settled == Settled::Dead
            {
                self.recordings.push((job.record.id.clone(), recording));
            }
        }
    }

    /// Stores the collected recordings. Those that Redis does not take in time are lost: they delay neither
    /// a lease nor a verdict.
    pub(super) async fn keep_recordings(&mut self) {
        if self.recordings.is_empty() {
            return;
        }
        self.report_settled();
        let recordings = std::mem::take(&mut self.recordings);
        let (queue, shard) = (&self.parts.services.queue, &self.parts.shard);
        let kept = queue.keep_recordings(shard, &recordings);
        let why = match tokio::time::timeout(self.retry_max() / 2, kept).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "Redis did not reply in time".to_owned(),
        };
        warn!(topic = %shard.topic(), jobs = recordings.len(), error = %why,
            "the recordings of dead jobs are lost; these jobs cannot be replayed");
    }
}
