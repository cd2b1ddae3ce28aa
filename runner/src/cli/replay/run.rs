//! Runs one recorded attempt again.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, TopicName};
use duebox_queue::Queue;
use duebox_sandbox::{
    Handler, HostServices, Interrupt, JobContext, KeyValue, Level, Limits, LogSink, MemoryKv,
    RunReport, Sandbox, SandboxConfig,
};
use parking_lot::Mutex;

use super::report::ReplayReport;
use crate::cli::support::failure::Failure;
use crate::cli::support::target;
use crate::deploy::module_file::{self, File, FileError};
use crate::manifest::{Manifest, Topic};
use crate::observe::recording::{AttemptEnd, Recording, Replay};
use crate::observe::redaction::Redaction;

/// The least time that a replay gets, whatever the ttr: this machine may be slower.
const TTR_MIN: Duration = Duration::from_secs(10);

/// A module that replays the attempts of a topic.
pub(super) struct Replayer {
    name: TopicName,
    topic: Topic,
    sandbox: Sandbox,
    file: File,
    path: PathBuf,
    handler: Handler,
    redaction: Redaction,
}

/// Collects the log of a replay.
#[derive(Default)]
struct ReplayLog(Mutex<Vec<String>>);

impl LogSink for ReplayLog {
    fn line(&self, _: &JobContext<'_>, level: Level, text: &str) {
        self.0.lock().push(format!("{}: {text}", level.name()));
    }
}

impl Replayer {
    /// Loads the module of a topic, or another one with the topic's grants and limits.
    ///
    /// # Errors
    /// A [`Failure`] of bad input if the manifest does not bind the topic, or the module is refused.
    pub(super) fn new(
        manifest: &Manifest,
        name: &TopicName,
        wasm: Option<&Path>,
    ) -> Result<Self, Failure> {
        let Some(topic) = manifest.topic_for(name) else {
            return Err(target::unknown_topic(name, manifest.topics.keys()));
        };
        let Some(path) = wasm.map(Path::to_owned).or_else(|| topic.handler.clone()) else {
            let message = format!("topic {name} has no handler: pull consumers run it");
            return Err(Failure::bad_input(message, "name a module with --wasm"));
        };
        let limits = &topic.limits;
        let config =
            SandboxConfig { max_jobs: 1, memory_max: limits.memory, tables_max: limits.tables };
        let sandbox = module_file::sandbox(&config, &manifest.runner, module_file::program())?;
        let file = File::read(&sandbox, &path, limits).map_err(|error| unreadable(&path, error))?;
        let handler = load(&sandbox, &file, &path, topic, topic.limits.clone())?;
        Ok(Self {
            name: name.clone(),
            redaction: Redaction::of_config(&topic.grants.config, &topic.secrets),
            topic: topic.clone(),
            sandbox,
            file,
            path,
            handler,
        })
    }

    /// Replays the last attempt of a dead job. `None` if the job is not dead, or has no recording.
    ///
    /// # Errors
    /// A [`Failure`] if Redis fails, or the recording cannot be read.
    pub(super) async fn replay(
        &self,
        queue: &Queue,
        id: &JobId,
    ) -> Result<Option<ReplayReport>, Failure> {
        let Some(stored) = queue.recording(&self.name, id).await? else { return Ok(None) };
        let job = queue.get(&self.name, id).await?;
        let Some(payload) = job.filter(|job| job.dead.is_some()).and_then(|job| job.payload) else {
            return Ok(None);
        };
        let recording = Recording::read(&stored.recording, &self.redaction).map_err(|error| {
            let message =
                format!("the recording of job {id} of {} cannot be read: {error}", self.name);
            Failure::failed(message, "replay it with the version of duebox that recorded it")
        })?;
        let mut report = ReplayReport::new(&self.name, id, stored.died_at_ms, &recording);
        let missing =
            recording.config.iter().filter(|name| !self.handler.config().contains_key(*name));
        report.missing_config = missing.cloned().collect();
        report.is_other_module = !self.is_module_of(&recording);
        if recording.is_too_large {
            return Ok(Some(report));
        }
        let (run, replay, log) = self.run(&recording, id, payload).await?;
        report.log = log;
        report.end(self.end(&recording, &run, &replay), replay.departures());
        Ok(Some(report))
    }

    /// Whether the module is the recorded one.
    fn is_module_of(&self, recording: &Recording) -> bool {
        self.handler.digest().to_string() == recording.digest
    }

    async fn run(
        &self,
        recording: &Recording,
        id: &JobId,
        payload: Bytes,
    ) -> Result<(RunReport, Arc<Replay>, Vec<String>), Failure> {
        let handler = self.handler_for(recording)?;
        let (name, id) = (self.name.clone(), id.clone());
        let mut invocation = recording.invocation(id, name, payload, &self.redaction);
        if !recording.end.is_timeout() {
            invocation.ttr = invocation.ttr.max(TTR_MIN);
        }
        let (replay, log) = (Arc::new(Replay::new(recording)), Arc::new(ReplayLog::default()));
        let services = Arc::new(HostServices {
            kv: Some(Arc::new(MemoryKv::new()) as Arc<dyn KeyValue>),
            interceptor: Some(Arc::clone(&replay) as _),
            ..HostServices::with_logs(Arc::clone(&log) as _)
        });
        let report = handler.run(invocation, Interrupt::new(), services).await;
        let lines = std::mem::take(&mut *log.0.lock());
        Ok((report, replay, lines))
    }

    /// The handler. The module that ran out of time stops at the recorded fuel, instead of after the same
    /// time.
    fn handler_for(&self, recording: &Recording) -> Result<Handler, Failure> {
        let is_bounded = recording.end.is_timeout() && self.is_module_of(recording);
        let fuel = recording.end.fuel.filter(|_| is_bounded);
        let Some(fuel) = fuel.and_then(NonZeroU64::new) else { return Ok(self.handler.clone()) };
        let limits = Limits { fuel: Some(fuel), ..self.topic.limits.clone() };
        // Loading blocks, which a runtime's thread must not.
        let load = || load(&self.sandbox, &self.file, &self.path, &self.topic, limits);
        std::thread::scope(|scope| scope.spawn(load).join()).unwrap_or_else(|_| {
            let message = format!("module {} cannot be loaded", self.path.display());
            Err(Failure::failed(message, "this is a defect of duebox; please report it"))
        })
    }

    /// How the replay ended. It ends like an attempt that ran out of time if it reaches the call that this
    /// attempt waited for, or burns the fuel that it had burnt.
    fn end(&self, recording: &Recording, run: &RunReport, replay: &Replay) -> AttemptEnd {
        let end = AttemptEnd::of(run, &self.redaction);
        let recorded = &recording.end;
        let spent_fuel = end.verdict == "out_of_fuel" && self.is_module_of(recording);
        let same_wait = replay.reached_wait() || (recorded.is_timeout() && spent_fuel);
        match same_wait {
            true => AttemptEnd {
                verdict: recorded.verdict.clone(),
                reason: recorded.reason.clone(),
                ..end
            },
            false => end,
        }
    }
}

fn unreadable(path: &Path, error: FileError) -> Failure {
    let path = path.display();
    match error {
        FileError::Io(error) => Failure::bad_input(
            format!("the module {path} cannot be read: {error}"),
            "name a .wasm, .wat, .js, .ts or .py file",
        ),
        FileError::Source(error) => Failure::bad_input(
            format!("handler {path}: {error}"),
            "https://github.com/duebox/duebox/blob/main/docs/guide/languages.md lists what a source handler can do",
        ),
    }
}

fn load(
    sandbox: &Sandbox,
    file: &File,
    path: &Path,
    topic: &Topic,
    limits: Limits,
) -> Result<Handler, Failure> {
    file.load(sandbox, limits, topic.grants.clone()).map_err(|error| {
        let message = format!("module {}: {error}", path.display());
        Failure::bad_input(message, error.remedy().into_owned())
    })
}
