//! The file of a handler, a module or a source: it is read up to its size limit, loaded into the sandbox, and tested with
//! the topic's smoke cases.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use duebox_sandbox::{
    CompilerProcess, Digest, Grants, Handler, Limits, LoadError, Sandbox, SandboxConfig,
    SandboxError, SnapshotSeed,
};
use tracing::warn;

use super::smoke::{self, SmokeError};
use crate::language::{self, Language, SourceError, SourceHandler};
use crate::manifest::{CompileLimits, Runner, Topic};
use crate::regular_file;
pub use crate::regular_file::{Fingerprint, fingerprint};

/// Why a topic has no module.
#[derive(Debug)]
pub enum ModuleError {
    /// The topic names none.
    None(String),
    /// The file cannot be read.
    Unreadable {
        /// The topic.
        topic: String,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// It is not the file that the topic pins.
    Pin {
        /// The topic.
        topic: String,
        /// The file.
        path: PathBuf,
        /// The pinned digest.
        pinned: Digest,
        /// The digest of the file.
        found: Digest,
    },
    /// The sandbox refuses it.
    Refused {
        /// The topic.
        topic: String,
        /// The file.
        path: PathBuf,
        /// The digest of the file.
        digest: Digest,
        /// Why.
        error: Box<LoadError>,
    },
    /// Its source, or a file that it imports, is refused.
    Source {
        /// The topic.
        topic: String,
        /// The file.
        path: PathBuf,
        /// Why, with the place in the source.
        error: Box<SourceError>,
    },
    /// It does not pass the topic's smoke cases.
    Smoke {
        /// The topic.
        topic: String,
        /// The file.
        path: PathBuf,
        /// The digest of the file.
        digest: Digest,
        /// Which case, and its result.
        error: Box<SmokeError>,
    },
}

impl ModuleError {
    /// What failed, on which topic and file.
    pub fn problem(&self) -> String {
        match self {
            Self::None(topic) => {
                format!("topic {topic} has no handler: it is served to pull consumers")
            }
            Self::Unreadable { topic, path, error } => {
                format!("topic {topic}: the handler {} cannot be read: {error}", path.display())
            }
            Self::Pin { topic, path, pinned, found } => format!(
                "topic {topic}: the handler {} is not the pinned one: its sha256 is {found}, the topic pins {pinned}",
                path.display()
            ),
            Self::Source { topic, path, error } => {
                format!("topic {topic}: the handler {} is refused: {error}", path.display())
            }
            Self::Refused { topic, path, error, .. } => {
                format!("topic {topic}: the handler {} is refused: {error}", path.display())
            }
            Self::Smoke { topic, path, error, .. } => {
                format!("topic {topic}: the handler {} is refused: {error}", path.display())
            }
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::None(_) => "add `handler` to run its jobs here",
            Self::Unreadable { .. } => "build it, or correct `handler`",
            Self::Pin { .. } => {
                "restore the file, or set `sha256` to the new digest if it should run"
            }
            Self::Source { .. } => {
                "https://github.com/duebox/duebox/blob/main/docs/guide/languages.md lists what a source handler can do"
            }
            Self::Refused { error, .. } => return error.remedy(),
            Self::Smoke { .. } => "correct the handler, or `smoke` if the case is wrong",
        })
    }

    /// The digest of the file, if it could be read.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::None(_) | Self::Unreadable { .. } | Self::Source { .. } => None,
            Self::Pin { found, .. } => Some(*found),
            Self::Refused { digest, .. } | Self::Smoke { digest, .. } => Some(*digest),
        }
    }
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem(), self.remedy())
    }
}

impl Error for ModuleError {}

/// The hidden command that compiles a module.
pub const COMPILE_MODULE: &str = "compile-module";

/// The program of this process, which also compiles modules. On Linux the name stays valid when the file is
/// replaced.
pub fn program() -> PathBuf {
    let link = PathBuf::from("/proc/self/exe");
    if link.exists() { link } else { std::env::current_exe().unwrap_or(link) }
}

/// A sandbox of this size, with the memory, the cache and the folder of languages that the manifest gives it. `program` is the
/// `duebox` binary that compiles its modules.
///
/// # Errors
/// [`SandboxError`] if the sandbox does not start, or the cache that the manifest names is unusable.
pub fn sandbox(
    config: &SandboxConfig,
    runner: &Runner,
    program: PathBuf,
) -> Result<Sandbox, SandboxError> {
    language::look_for_engine_in(runner.languages.as_deref());
    language::import_python_from(runner.python_path.as_deref());
    let mut sandbox = Sandbox::new(config)?;
    sandbox.limit_memory(runner.memory);
    sandbox.use_compiler_process(compiler_process(runner.compile, program));
    if let Some(cache) = &runner.cache {
        match sandbox.use_cache_dir(&cache.path) {
            Err(error) if cache.is_named => return Err(error),
            Err(error) => {
                warn!("{error}; continuing without a cache, modules are compiled at every start")
            }
            Ok(()) => {}
        }
    }
    Ok(sandbox)
}

/// The process that compiles modules within these limits.
pub fn compiler_process(limits: CompileLimits, program: PathBuf) -> CompilerProcess {
    let args = vec![COMPILE_MODULE.to_owned()];
    let CompileLimits { memory, time } = limits;
    CompilerProcess { program, args, memory_max: memory as u64, time_max: time }
}

/// Reads, checks and compiles the module of a topic or pattern, and runs its smoke cases. It blocks, up to
/// seconds for a large module plus the time of the cases ([`smoke::pass`]). It must not be called on a
/// runtime's thread.
///
/// # Errors
/// [`ModuleError`] if the file is unreadable or not the pinned one, if the sandbox refuses it, or if a case
/// fails.
pub fn load(sandbox: &Sandbox, name: &impl Display, topic: &Topic) -> Result<Handler, ModuleError> {
    let handler = load_untested(sandbox, name, topic, None)?;
    match smoke::pass(&handler, name, topic) {
        Ok(()) => Ok(handler),
        Err(error) => Err(ModuleError::Smoke {
            topic: name.to_string(),
            path: topic.handler.clone().unwrap_or_default(),
            digest: handler.digest(),
            error: Box::new(error),
        }),
    }
}

/// Reads, checks and compiles the module of a topic or pattern. If its instances start from a snapshot, the snapshot
/// is taken with this seed. It blocks, and must not be called on a runtime's thread.
///
/// # Errors
/// [`ModuleError`] if the file is unreadable or not the pinned one, or if the sandbox refuses it.
pub fn load_untested(
    sandbox: &Sandbox,
    name: &impl Display,
    topic: &Topic,
    seed: Option<SnapshotSeed>,
) -> Result<Handler, ModuleError> {
    let named = name.to_string();
    let Some(path) = topic.handler.clone() else { return Err(ModuleError::None(named)) };
    let file = match File::read(sandbox, &path, &topic.limits) {
        Ok(file) => file,
        Err(FileError::Io(error)) => {
            return Err(ModuleError::Unreadable { topic: named, path, error });
        }
        Err(FileError::Source(error)) => {
            return Err(ModuleError::Source { topic: named, path, error });
        }
    };
    let digest = file.digest();
    if let Some(pinned) = topic.sha256.filter(|pinned| *pinned != digest) {
        return Err(ModuleError::Pin { topic: named, path, pinned, found: digest });
    }
    let (limits, grants) = (topic.limits.clone(), topic.grants.clone());
    let loaded = file.load_with_seed(sandbox, limits, grants, seed);
    loaded.map_err(|error| ModuleError::Refused {
        topic: named,
        path,
        digest,
        error: Box::new(error),
    })
}

/// A handler's file: a module, or a source with all that it imports.
pub enum File {
    /// A module.
    Module(Vec<u8>),
    /// A source.
    Source(SourceHandler),
}

/// Why a handler's file is not read.
pub enum FileError {
    /// The error of the system.
    Io(io::Error),
    /// The source is refused.
    Source(Box<SourceError>),
}

impl File {
    /// Reads a handler. It blocks, and must not be called on a runtime's thread.
    ///
    /// # Errors
    /// [`FileError`] if it cannot be read, or is a source that is refused.
    pub fn read(sandbox: &Sandbox, path: &Path, limits: &Limits) -> Result<Self, FileError> {
        if Language::of(path).is_none() {
            return read(path, limits.module).map(Self::Module).map_err(FileError::Io);
        }
        match SourceHandler::read(sandbox, path, limits) {
            Ok(source) => Ok(Self::Source(source)),
            Err(SourceError::Unreadable { path: file, error }) if file == path => {
                Err(FileError::Io(error))
            }
            Err(error) => Err(FileError::Source(Box::new(error))),
        }
    }

    /// The digest that identifies the handler.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Module(bytes) => Digest::of(bytes),
            Self::Source(source) => source.digest(),
        }
    }

    /// Loads it into the sandbox.
    ///
    /// # Errors
    /// [`LoadError`] if the sandbox refuses it.
    pub fn load(
        &self,
        sandbox: &Sandbox,
        limits: Limits,
        grants: Grants,
    ) -> Result<Handler, LoadError> {
        self.load_with_seed(sandbox, limits, grants, None)
    }

    /// Loads it into the sandbox. If its instances start from a snapshot, the snapshot is taken with this seed.
    ///
    /// # Errors
    /// [`LoadError`] if the sandbox refuses it.
    pub fn load_with_seed(
        &self,
        sandbox: &Sandbox,
        limits: Limits,
        grants: Grants,
        seed: Option<SnapshotSeed>,
    ) -> Result<Handler, LoadError> {
        match self {
            Self::Module(bytes) => sandbox.load_with_seed(bytes, limits, grants, seed),
            Self::Source(source) => source.load_with_seed(sandbox, limits, grants, seed),
        }
    }
}

/// Reads at most one byte more than allowed; the sandbox then reports that it is too large.
///
/// # Errors
/// The error of the system.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    regular_file::read(path, bytes_max as u64 + 1)
}
