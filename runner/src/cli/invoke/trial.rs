//! What a handler under `duebox invoke` reads: a fixed clock and random bytes, recorded HTTP responses, and
//! the contents of its store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use duebox_job::TopicName;
use duebox_sandbox::{KeyValue as _, KvCondition, MemoryKv};
use jiff::Timestamp;

use super::exchange_files;
use crate::cli::support::failure::Failure;
use crate::deploy::trial::TrialHost;
use crate::manifest::Exchange;
use crate::observe::redaction::Redaction;
use crate::regular_file;

/// The time of a deterministic run without `--now`: the start of 2026.
const DETERMINISTIC_MS: u64 = 1_767_225_600_000;
/// The largest file of `--kv`.
const KV_FILE_MAX: u64 = 256 << 20;

/// What the handler reads, as flags.
#[derive(Args)]
pub(super) struct TrialArgs {
    /// Answer HTTP requests from the recorded responses in DIR; nothing is sent
    ///
    /// Every *.toml file of the folder is read, in the order of their names. A response is given
    /// once for each job. A request without one ends the handler.
    #[arg(long = "http", value_name = "DIR", conflicts_with = "record")]
    answers: Option<PathBuf>,
    /// Write each real HTTP request and its response to a file in DIR, for --http
    ///
    /// The values of secrets are replaced by placeholders, request headers are not written.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Stop the handler's clock at this time, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<u64>,
    /// The contents of the key-value store: a JSON object of keys and values
    ///
    /// Includes --allow-kv. The store after the run is shown; the file is not changed.
    #[arg(long = "kv", value_name = "FILE")]
    values: Option<PathBuf>,
    /// Give the same figures in every run: fix the clock and the random bytes, count fuel
    ///
    /// The clock stands at --now, or at the start of 2026. Times are not shown, because they
    /// differ from run to run.
    #[arg(long)]
    pub(super) deterministic: bool,
}

/// What the jobs of one command read.
pub(super) struct Trial {
    now_ms: Option<u64>,
    fixes_random: bool,
    exchanges: Option<Vec<Exchange>>,
    record: Option<PathBuf>,
    redaction: Redaction,
    kv: Arc<MemoryKv>,
    shows_kv: bool,
}

impl TrialArgs {
    /// Whether the handler gets a store.
    pub(super) fn grants_kv(&self) -> bool {
        self.values.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// A [`Failure`] of bad input if a file cannot be read.
    pub(super) fn trial(&self, redaction: Redaction) -> Result<Trial, Failure> {
        let exchanges = self.answers.as_deref().map(|dir| exchange_files::read(dir, &redaction));
        if let Some(dir) = &self.record {
            std::fs::create_dir_all(dir).map_err(|error| {
                let message = format!("the folder {} cannot be created: {error}", dir.display());
                Failure::bad_input(message, "name a folder that this user can write")
            })?;
        }
        Ok(Trial {
            now_ms: self.now.or(self.deterministic.then_some(DETERMINISTIC_MS)),
            fixes_random: self.deterministic,
            exchanges: exchanges.transpose()?,
            record: self.record.clone(),
            redaction,
            kv: Arc::new(MemoryKv::new()),
            shows_kv: self.values.is_some(),
        })
    }

    /// The values of `--kv`.
    pub(super) fn values(&self) -> Result<BTreeMap<String, Bytes>, Failure> {
        self.values.as_deref().map_or_else(|| Ok(BTreeMap::new()), read_values)
    }
}

impl Trial {
    /// The time of the job, in Unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        self.now_ms.unwrap_or_else(|| u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0))
    }

    /// Whether the handler may use the network.
    pub(super) fn has_network(&self) -> bool {
        self.exchanges.is_none()
    }

    /// The store, which all jobs of the command share.
    pub(super) fn kv(&self) -> Arc<MemoryKv> {
        Arc::clone(&self.kv)
    }

    /// Fills the store.
    ///
    /// # Errors
    /// A [`Failure`] of bad input if the values do not fit.
    pub(super) async fn fill(
        &self,
        topic: &TopicName,
        values: BTreeMap<String, Bytes>,
    ) -> Result<(), Failure> {
        for (key, value) in values {
            let set = self.kv.set(topic, key.as_bytes(), value, None, KvCondition::Always);
            set.await.map_err(|error| {
                Failure::bad_input(format!("--kv: the key {key:?}: {error}"), "keep fewer values")
            })?;
        }
        Ok(())
    }

    /// The store after a run as text, if it is shown.
    pub(super) fn shown_kv(&self, topic: &TopicName) -> Option<BTreeMap<String, String>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.shows_kv.then(|| {
            let contents = self.kv.contents(topic).into_iter();
            contents.map(|(key, value)| (text(&key), text(&value))).collect()
        })
    }

    /// The host of one job.
    pub(super) fn host(&self, ttr: Duration) -> Arc<TrialHost> {
        let mut host = TrialHost::default();
        if let Some(now_ms) = self.now_ms {
            host = host.with_clock(now_ms, ttr);
        }
        if self.fixes_random {
            host = host.with_fixed_random();
        }
        if let Some(exchanges) = &self.exchanges {
            host = host.with_exchanges(exchanges.iter().cloned());
        }
        if self.record.is_some() {
            host = host.observing();
        }
        Arc::new(host)
    }

    /// Writes what a job has sent.
    ///
    /// # Errors
    /// A [`Failure`] if a file cannot be written.
    pub(super) fn write(&self, host: &TrialHost) -> Result<(), Failure> {
        let Some(dir) = &self.record else { return Ok(()) };
        exchange_files::write(dir, &host.take_observed(), &self.redaction)
    }
}

fn time(text: &str) -> Result<u64, String> {
    let time: Timestamp = text
        .parse()
        .map_err(|_| "write a time with its offset, such as 2026-01-31T12:00:00Z".to_owned())?;
    u64::try_from(time.as_millisecond()).map_err(|_| "write a time from 1970 on".to_owned())
}

/// Reads a JSON object: a string is the value itself, anything else its JSON.
fn read_values(path: &Path) -> Result<BTreeMap<String, Bytes>, Failure> {
    let refused = |why: String| {
        let message = format!("--kv {}: {why}", path.display());
        Failure::bad_input(message, "write a JSON object: {\"key\": \"value\"}")
    };
    let bytes =
        regular_file::read(path, KV_FILE_MAX).map_err(|error| refused(error.to_string()))?;
    let values: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
    let value = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => Bytes::from(text),
        other => Bytes::from(other.to_string()),
    };
    Ok(values.into_iter().map(|(key, json)| (key, value(json))).collect())
}
