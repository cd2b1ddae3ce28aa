//! The file of a handler module: it is read up to its size limit, loaded into the sandbox, and tested with
//! the topic's smoke cases.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use duebox_sandbox::{
    CompilerProcess, Digest, Handler, LoadError, Sandbox, SandboxConfig, SandboxError,
};
use tracing::warn;

use super::smoke::{self, SmokeError};
use crate::manifest::{CompileLimits, Runner, Topic};
use crate::regular_file;

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
            Self::Refused { topic, path, error, .. } => {
                format!("topic {topic}: the handler {} is refused: {error}", path.display())
            }
            Self::Smoke { topic, path, error, .. } => {
                format!("topic {topic}: the handler {} is refused: {error}", path.display())
            }
        }
    }

    /// What to do about it. The error of a refused module states its own remedy too.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::None(_) => "add `handler` to run its jobs here",
            Self::Unreadable { .. } => "build it, or correct `handler`",
            Self::Pin { .. } => {
                "restore the file, or set `sha256` to the new digest if it should run"
            }
            Self::Refused { .. } => "docs/reference/abi.md says what a handler must have",
            Self::Smoke { .. } => "correct the handler, or `smoke` if the case is wrong",
        }
    }

    /// The digest of the file, if it could be read.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::None(_) | Self::Unreadable { .. } => None,
            Self::Pin { found, .. } => Some(*found),
            Self::Refused { digest, .. } | Self::Smoke { digest, .. } => Some(*digest),
        }
    }
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { .. } => f.write_str(&self.problem()),
            _ => write!(f, "{}; {}", self.problem(), self.remedy()),
        }
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

/// A sandbox of this size, with the memory and the cache that the manifest gives it. `program` is the
/// `duebox` binary that compiles its modules.
///
/// # Errors
/// [`SandboxError`] if the sandbox does not start, or the cache that the manifest names is unusable.
pub fn sandbox(
    config: &SandboxConfig,
    runner: &Runner,
    program: PathBuf,
) -> Result<Sandbox, SandboxError> {
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

/// Tells versions of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

/// The fingerprint of the file that a path leads to, through all links; `None` if there is none.
pub fn fingerprint(path: &Path) -> Option<Fingerprint> {
    let file = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Some(Fingerprint { device: file.dev(), inode: file.ino(), bytes: file.len(), modified_ns })
}

/// Reads, checks and compiles the module of a topic or pattern, and runs its smoke cases. It blocks, up to
/// seconds for a large module plus the time of the cases ([`smoke::pass`]). It must not be called on a
/// runtime's thread.
///
/// # Errors
/// [`ModuleError`] if the file is unreadable or not the pinned one, if the sandbox refuses it, or if a case
/// fails.
pub fn load(sandbox: &Sandbox, name: &impl Display, topic: &Topic) -> Result<Handler, ModuleError> {
    let named = name.to_string();
    let Some(path) = topic.handler.clone() else { return Err(ModuleError::None(named)) };
    let bytes = match read(&path, topic.limits.module) {
        Ok(bytes) => bytes,
        Err(error) => return Err(ModuleError::Unreadable { topic: named, path, error }),
    };
    let digest = Digest::of(&bytes);
    if let Some(pinned) = topic.sha256.filter(|pinned| *pinned != digest) {
        return Err(ModuleError::Pin { topic: named, path, pinned, found: digest });
    }
    let handler = match sandbox.load(&bytes, topic.limits.clone(), topic.grants.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            return Err(ModuleError::Refused {
                topic: named,
                path,
                digest,
                error: Box::new(error),
            });
        }
    };
    match smoke::pass(&handler, name, topic) {
        Ok(()) => Ok(handler),
        Err(error) => {
            Err(ModuleError::Smoke { topic: named, path, digest, error: Box::new(error) })
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
