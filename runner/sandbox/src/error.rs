//! Errors of the sandbox as a whole. Errors of one module are in [`module::error`](crate::module::error).

use std::io;
use std::path::PathBuf;

/// Why the sandbox cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Wasmtime does not start on this machine.
    #[error(
        "the WebAssembly engine does not start: {reason}; check the CPU and the memory limits of this machine"
    )]
    Engine {
        /// The error of Wasmtime.
        reason: String,
    },
    /// A thread of the sandbox does not start.
    #[error(
        "cannot start the sandbox's {thread} thread: {source}; raise the limit of processes (ulimit -u, pids.max)"
    )]
    Thread {
        /// The thread's name.
        thread: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The directory for compiled modules cannot be opened, or other users can write to it.
    #[error(
        "the cache {} cannot be used: {reason}; name a directory that only this user can write, or set cache = \"\" to disable it",
        path.display()
    )]
    Cache {
        /// The directory.
        path: PathBuf,
        /// Why the cache does not use it.
        reason: CacheDirError,
    },
}

/// Why a directory or a file of the cache is not used.
#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// An operation of the file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Another user owns it.
    #[error("it belongs to user {owner}, but the daemon runs as user {user}")]
    Owner {
        /// The owner's user id.
        owner: u32,
        /// The daemon's user id.
        user: u32,
    },
    /// Other users can write to it.
    #[error("it can be written by others (mode {mode:o})")]
    Writable {
        /// The permission bits.
        mode: u32,
    },
}

impl From<rustix::io::Errno> for CacheDirError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}
