//! A session of `duebox dev`: sources, a build, a daemon and the samples, and how each event leads to the next step.
//!
//! At most one build and one daemon run. A change during a build is built afterwards. A handler that is refused, by the
//! build or by the daemon, leaves the one in service.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::DevArgs;
use super::build::{Build, BuildEvent, BuildReport};
use super::change::Change;
use super::daemon::{DaemonEvent, DevDaemon};
use super::feed::{Feed, Tone};
use super::log_line::{DaemonLine, ShownLine};
use super::project::{Project, is_settings, is_text};
use super::pusher::Pusher;
use super::samples::Samples;
use super::sources::{ChangedFiles, SourceWatch};
use crate::cli::Common;
use crate::cli::support::failure::Failure;
use crate::daemon::signals::Signals;
use crate::manifest::Manifest;

/// A running session.
pub(super) struct Session<'c> {
    common: &'c Common,
    pub(super) project: Project,
    manifest: Manifest,
    pub(super) feed: Feed,
    pub(super) samples: Samples,
    pub(super) pushes_changes: bool,
    pub(super) build: Option<Build>,
    pub(super) build_failed: bool,
    pub(super) daemon: Option<DevDaemon>,
    /// The last change that is on its way into service, and one that was saved during the build under way.
    change: Option<Change>,
    next_change: Option<Change>,
    pusher: Pusher,
    sources: SourceWatch,
    signals: Signals,
}

/// What a session reacts to.
pub(super) enum Event {
    Changed(ChangedFiles),
    Build(io::Result<BuildEvent>),
    Daemon(io::Result<DaemonEvent>),
    /// A signal.
    Quit,
}

impl<'c> Session<'c> {
    /// Opens a project, and starts its build or its daemon.
    pub(super) fn open(
        common: &'c Common,
        manifest: PathBuf,
        args: DevArgs,
    ) -> Result<Self, Failure> {
        let project = Project::open(manifest, &args)?;
        let (manifest, samples) = project.read_manifest(common)?;
        let signals = Signals::listen().map_err(|error| {
            Failure::failed(format!("signals cannot be handled: {error}"), "report this")
        })?;
        let sources = SourceWatch::watch(&project.dir);
        let mut session = Self {
            common,
            project,
            manifest,
            feed: Feed::default(),
            samples,
            pushes_changes: args.push,
            build: None,
            build_failed: false,
            daemon: None,
            change: None,
            next_change: None,
            pusher: Pusher::default(),
            sources,
            signals,
        };
        session.start();
        Ok(session)
    }

    fn start(&mut self) {
        let (path, redis) = (self.manifest.path.display(), &self.manifest.redis.url);
        let text = format!("{path} · topic {} · Redis {redis}", self.samples.topic);
        self.feed.add("dev", Tone::Plain, &text);
        match self.project.is_compiled() {
            true => self.start_build(),
            false => self.start_daemon(),
        }
    }

    /// Waits for the next event. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> Event {
        let Self { build, daemon, sources, signals, .. } = self;
        let of_build = async {
            match build {
                Some(build) => build.next().await,
                None => pending().await,
            }
        };
        let of_daemon = async {
            match daemon {
                Some(daemon) => daemon.next().await,
                None => pending().await,
            }
        };
        tokio::select! {
            // A terminal that is closed (SIGHUP) ends the session too.
            _ = signals.next() => Event::Quit,
            event = of_daemon => Event::Daemon(event),
            event = of_build => Event::Build(event),
            changed = sources.changed() => Event::Changed(changed),
        }
    }

    /// Handles an event; false if the session is over.
    ///
    /// # Errors
    /// [`Failure`] if the daemon cannot start for a reason that no change of the project mends.
    pub(super) async fn handle(&mut self, event: Event) -> Result<bool, Failure> {
        match event {
            Event::Quit => return Ok(false),
            Event::Changed(changed) => self.changed(&changed),
            Event::Build(event) => match event.map_err(|error| broken("the build", &error))? {
                BuildEvent::Line(line) => self.feed.add("build", Tone::Dim, &line),
                BuildEvent::Compiled(took) => {
                    if let Some(change) = &mut self.change {
                        change.compiler = Some(took);
                    }
                }
                BuildEvent::Ended(result, took) => self.built(result, took).await,
            },
            Event::Daemon(event) => match event.map_err(|error| broken("the daemon", &error))? {
                DaemonEvent::Line(line) => self.daemon_said(&line).await,
                DaemonEvent::Ended(status) => self.daemon_ended(status)?,
            },
        }
        Ok(true)
    }

    fn changed(&mut self, changed: &ChangedFiles) {
        let matters = changed.files.iter().filter(|file| !is_text(file));
        let (settings, sources): (Vec<&PathBuf>, Vec<_>) =
            matters.partition(|file| is_settings(file));
        let Some(first) = sources.first().or(settings.first()) else { return };
        let text = match sources.len() + settings.len() {
            1 => first.display().to_string(),
            many => format!("{} and {} more", first.display(), many - 1),
        };
        self.feed.add("change", Tone::Plain, &text);
        if !settings.is_empty() {
            self.read_settings();
        }
        let change = Change::saved(changed.saved_at);
        if self.project.is_compiled() && (!sources.is_empty() || self.build_failed) {
            self.next_change = Some(change);
            return self.start_build();
        }
        if !sources.is_empty() {
            self.change = Some(change);
        }
        self.look_again();
    }

    /// Reads the manifest and the test cases again. The daemon reads the manifest too, and says what is wrong with it.
    fn read_settings(&mut self) {
        match self.project.read_manifest(self.common) {
            Ok((manifest, mut samples)) => {
                samples.select_like(&self.samples);
                (self.manifest, self.samples) = (manifest, samples);
            }
            Err(failure) => self.feed.add("dev", Tone::Warning, failure.message()),
        }
    }

    /// Builds the project, unless a build is under way. What was saved meanwhile is built after it.
    pub(super) fn start_build(&mut self) {
        if !self.project.is_compiled() {
            return self.look_again();
        }
        if self.build.is_some() {
            return;
        }
        self.change = self.next_change.take();
        match Build::start(self.common, &self.project.manifest, &self.project.dir) {
            Ok(build) => self.build = Some(build),
            Err(error) => self.feed.add("build", Tone::Bad, &not_started(&error)),
        }
    }

    async fn built(&mut self, result: Result<BuildReport, Vec<String>>, took: Duration) {
        let took_over = self.build.take().and_then(|build| build.took_over);
        self.build_failed = result.is_err();
        let took_ms = took.as_millis();
        match result {
            Ok(report) => {
                let (what, compiler_ms) = (report.describe(), report.compiler().as_millis());
                let text = format!(
                    "built {what} in {took_ms} ms, {compiler_ms} ms of them for the compiler"
                );
                self.feed.add("build", Tone::Good, &text);
                let took_over = took_over.is_some_and(|digest| report.is(&digest));
                match &self.daemon {
                    Some(_) if took_over => {}
                    Some(daemon) if report.is(&daemon.serves) => self.is_unchanged().await,
                    _ => self.look_again(),
                }
            }
            Err(problems) => {
                problems.iter().for_each(|text| self.feed.add("build", Tone::Bad, text));
                let then = match self.serving() {
                    Some(digest) => format!("{digest} keeps serving"),
                    None => "nothing serves yet".to_owned(),
                };
                let text = format!("the build failed after {took_ms} ms; {then}");
                self.feed.add("build", Tone::Bad, &text);
                // A module of an earlier build serves until then.
                if self.daemon.is_none()
                    && self.project.handler.as_deref().is_some_and(Path::exists)
                {
                    self.start_daemon();
                }
            }
        }
        if self.next_change.is_some() {
            self.start_build();
        }
    }

    async fn is_unchanged(&mut self) {
        self.change = None;
        self.feed.add("build", Tone::Dim, "the module is the one that serves");
        if self.pushes_changes {
            self.push().await;
        }
    }

    /// Has the daemon look at its files, or starts it.
    fn look_again(&mut self) {
        match &self.daemon {
            Some(daemon) => daemon.reload(),
            None => self.start_daemon(),
        }
    }

    fn start_daemon(&mut self) {
        match DevDaemon::start(self.common, &self.project.manifest) {
            Ok(daemon) => self.daemon = Some(daemon),
            Err(error) => self.feed.add("daemon", Tone::Bad, &not_started(&error)),
        }
    }

    async fn daemon_said(&mut self, line: &str) {
        let Some(daemon) = &mut self.daemon else { return };
        let Some(shown) = ShownLine::read(line) else {
            daemon.said(line);
            return self.feed.add("daemon", Tone::Bad, line);
        };
        self.feed.add(&shown.label, shown.tone, &shown.text);
        match shown.line {
            DaemonLine::Ready => {
                daemon.is_ready = true;
                if self.pushes_changes {
                    self.push().await;
                }
            }
            DaemonLine::Serving { topic, digest } if topic == self.samples.topic.as_str() => {
                daemon.serves.clone_from(&digest);
                if daemon.is_ready {
                    self.serves_new(digest).await;
                }
            }
            DaemonLine::Verdict { digest } => {
                let is_first = |change: &mut Change| change.serves.as_ref() == Some(&digest);
                if let Some(change) = self.change.take_if(is_first) {
                    let text = format!("first verdict of the new code {}", change.describe());
                    self.feed.add("change", Tone::Good, &text);
                }
            }
            _ => {}
        }
    }

    /// New code has taken over.
    async fn serves_new(&mut self, digest: String) {
        if let Some(build) = &mut self.build {
            build.took_over = Some(digest.clone());
        }
        if let Some(change) = &mut self.change {
            let text = format!("{digest} serves {}", change.describe());
            self.feed.add("change", Tone::Good, &text);
            change.serves = Some(digest);
        }
        if self.pushes_changes {
            self.push().await;
        }
    }

    fn daemon_ended(&mut self, status: ExitStatus) -> Result<(), Failure> {
        let Some(daemon) = self.daemon.take() else { return Ok(()) };
        self.pusher = Pusher::default();
        if !daemon.is_ready && status.code() == Some(1) {
            let text = daemon.last_words();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            return Err(Failure::with_own_remedy(text.to_owned()));
        }
        let what = if daemon.is_ready { "ended" } else { "did not start" };
        let text = format!("the daemon {what} ({status}); it starts again with the next change");
        self.feed.add("daemon", Tone::Bad, &text);
        Ok(())
    }

    /// Pushes the selected sample.
    pub(super) async fn push(&mut self) {
        if !self.daemon.as_ref().is_some_and(|daemon| daemon.is_ready) {
            return self.feed.add("push", Tone::Warning, "the daemon does not serve yet");
        }
        match self.pusher.push(&self.manifest, &self.samples).await {
            Ok(text) => self.feed.add("push", Tone::Plain, &text),
            Err(failure) => self.feed.add("push", Tone::Bad, failure.message()),
        }
    }

    /// The start of the digest that serves the samples.
    pub(super) fn serving(&self) -> Option<&str> {
        let daemon = self.daemon.as_ref().filter(|daemon| daemon.is_ready)?;
        Some(daemon.serves.as_str()).filter(|digest| !digest.is_empty())
    }

    /// Stops what it started. A second signal ends the daemon without a drain.
    pub(super) async fn stop(mut self) -> Result<(), Failure> {
        if let Some(build) = &self.build {
            build.stop();
        }
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        let drain = self.manifest.runner.drain_timeout;
        daemon.terminate();
        loop {
            tokio::select! {
                () = daemon.ended(drain) => return Ok(()),
                _ = self.signals.next() => daemon.terminate(),
            }
        }
    }
}

fn not_started(error: &io::Error) -> String {
    format!("duebox cannot be started again: {error}")
}

fn broken(what: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("{what} cannot be followed: {error}"), "start duebox dev again")
}
