//! The project of a session: its folder, what is built and served of it, and its manifest with the samples.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use duebox_job::TopicName;

use super::DevArgs;
use super::samples::Samples;
use crate::cli::Common;
use crate::cli::project::{HandlerLanguage, MODULE, ProjectKind};
use crate::cli::support::failure::Failure;
use crate::cli::support::payload::Source;
use crate::manifest::Manifest;

/// The longest payload of the command line, in bytes.
const PAYLOAD_MAX: usize = 64 << 20;

/// What a session is about.
pub(super) struct Project {
    pub(super) dir: PathBuf,
    pub(super) manifest: PathBuf,
    /// `None` if the folder has no single handler: then the daemon serves what the manifest names, and nothing is built.
    pub(super) language: Option<HandlerLanguage>,
    /// What the daemon loads.
    pub(super) handler: Option<PathBuf>,
    topic: Option<TopicName>,
    payload: Option<Bytes>,
}

impl Project {
    /// Opens the project of a folder.
    ///
    /// # Errors
    /// [`Failure`] of bad input if there is no such folder, or the payload cannot be read.
    pub(super) fn open(manifest: PathBuf, args: &DevArgs) -> Result<Self, Failure> {
        let dir = args.dir.clone();
        if !dir.is_dir() {
            let message = format!("{} is not a folder", dir.display());
            return Err(Failure::bad_input(message, "name the folder of a project"));
        }
        let (language, handler) = match HandlerLanguage::of_project(&dir) {
            Some((language, ProjectKind::Compiled)) => (Some(language), Some(dir.join(MODULE))),
            Some((language, ProjectKind::Served(file))) => (Some(language), Some(dir.join(file))),
            None => (None, None),
        };
        let payload = match &args.payload {
            Some(text) => Some(Source::new(Some(text.clone())).read(PAYLOAD_MAX)?),
            None => None,
        };
        Ok(Self { dir, manifest, language, handler, topic: args.topic.clone(), payload })
    }

    /// Whether changes of its sources are built.
    pub(super) fn is_compiled(&self) -> bool {
        self.language.is_some_and(HandlerLanguage::is_compiled)
    }

    /// The manifest and the samples as they are now.
    ///
    /// # Errors
    /// [`Failure`] of bad input if a file is invalid, or no topic has a handler.
    pub(super) fn read_manifest(&self, common: &Common) -> Result<(Manifest, Samples), Failure> {
        let environment = common.environment().without_handlers();
        let manifest = Manifest::load_with(&self.manifest, &environment)?;
        let topic = (self.topic.as_ref(), self.handler.as_deref());
        let samples = Samples::find(&manifest, &environment, topic, self.payload.clone())?;
        Ok((manifest, samples))
    }
}

/// A manifest or test cases: nothing is built from them.
pub(super) fn is_settings(file: &Path) -> bool {
    let is_toml = file.extension().is_some_and(|ending| ending == "toml");
    is_toml && (file.starts_with("tests") || file == Path::new("duebox.toml"))
}

/// What people read, and no tool.
pub(super) fn is_text(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "md")
}
