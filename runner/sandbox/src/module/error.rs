//! Why a module, or the whole sandbox, is refused: what failed, on what, and the remedy. The caller
//! adds the name of the file.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use crate::module::missing::Missing;

/// Why the sandbox cannot start.
#[derive(Debug)]
pub enum SandboxError {
    /// Wasmtime does not start on this machine.
    Engine(String),
    /// A thread of the sandbox does not start.
    Thread {
        /// Which thread.
        what: &'static str,
        /// What the machine said.
        why: String,
    },
    /// The directory of compiled modules is not to be trusted, or not to be had.
    Cache {
        /// The directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl SandboxError {
    /// What failed, on what.
    pub fn problem(&self) -> String {
        match self {
            Self::Engine(detail) => format!("the WebAssembly engine does not start: {detail}"),
            Self::Thread { what, why } => {
                format!("cannot start the sandbox's {what} thread: {why}")
            }
            Self::Cache { path, why } => {
                format!("the cache {} cannot be used: {why}", path.display())
            }
        }
    }

    /// What to do about it, if the problem does not say it.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Engine(_) => "check that this machine and its limits suit Wasmtime",
            Self::Thread { .. } => "raise the limit of processes (ulimit -u, pids.max)",
            Self::Cache { .. } => {
                "name a directory that only this user can write, or write cache = \"\" to do without"
            }
        })
    }
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl Error for SandboxError {}

/// Why a module is not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The file has no byte.
    Empty,
    /// The file is over the limit.
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// Neither a binary nor a text module.
    NotWasm,
    /// The engine for modules of its kind (with a budget of fuel, from a snapshot) does not start.
    Engine(String),
    /// No snapshot of the module can be taken.
    Snapshot(String),
    /// A component, not a core module.
    Component,
    /// A text module that does not parse.
    Text(String),
    /// The file ends too early.
    Truncated(usize),
    /// The bytes break a rule of WebAssembly, or use a feature that is off.
    Invalid(String),
    /// The module imports its memory.
    ImportedMemory {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// The module's memory is shared between threads.
    SharedMemory,
    /// The module's memory has 64-bit addresses.
    Memory64,
    /// The module has more than one memory.
    Memories(usize),
    /// The module needs a memory but exports none.
    NoMemory {
        /// What needs it.
        needs: String,
    },
    /// The module's memory starts over the limit.
    MemoryOverLimit {
        /// Its first size in bytes.
        size: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The module's tables start over the limit.
    TablesOverLimit {
        /// The first size of all tables.
        size: u64,
        /// The limit.
        max: u32,
    },
    /// The module has too many tables.
    Tables {
        /// How many it has.
        size: usize,
        /// The limit.
        max: u32,
    },
    /// The module has too many functions to be compiled in reasonable time and memory.
    Functions {
        /// How many it has.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// The topic's table limit is over what the pool was built for.
    PoolTables {
        /// The topic's limit.
        wanted: u32,
        /// What the pool holds.
        max: u32,
    },
    /// The module is a command.
    Command,
    /// An import that is not part of the ABI.
    UnknownImport {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// Imports of the ABI that the topic does not grant.
    NotGranted(Missing),
    /// A directory that the topic grants cannot be had.
    Directory {
        /// Its name for the guest.
        guest: String,
        /// Where it is to be.
        host: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An import with another signature than the ABI's.
    ImportType(String),
    /// A function that the host calls is one of the host's own.
    ExportedImport {
        /// The export's name.
        name: String,
    },
    /// There is no `handle`.
    NoHandle,
    /// `handle` comes with a pointer, but nobody can ask for one.
    NoAlloc,
    /// An export has the wrong signature.
    ExportType {
        /// The export's name.
        name: &'static str,
        /// The type it has.
        found: String,
        /// The types it may have.
        wanted: &'static str,
    },
}

impl LoadError {
    /// What failed, on what.
    pub fn problem(&self) -> String {
        match self {
            Self::Empty => "the module is empty".to_owned(),
            Self::NotWasm => {
                "this is no WebAssembly module: it starts neither with `\\0asm` (.wasm) nor with text (.wat)".to_owned()
            }
            Self::Engine(detail) => format!(
                "the module needs an engine of its kind, which does not start: {detail}"
            ),
            Self::Snapshot(detail) => format!("no snapshot of the module can be taken: {detail}"),
            Self::Component => {
                "this is a WebAssembly component; handlers are core modules".to_owned()
            }
            Self::Text(detail) => format!("the module's text does not parse: {detail}"),
            Self::Truncated(detail) => format!("the module ends in the middle, at byte {detail}"),
            Self::Invalid(detail) => format!("the module is not valid: {detail}"),
            Self::ImportedMemory { module, name } => format!(
                "the module imports its memory ({module}.{name})"
            ),
            Self::SharedMemory => "the module's memory is shared".to_owned(),
            Self::Memory64 => "the module's memory has 64-bit addresses".to_owned(),
            Self::NoMemory { needs } => format!(
                "the module exports no memory, but {needs} needs one"
            ),
            Self::Command => "the module is a command: it exports `_start`".to_owned(),
            Self::UnknownImport { module, name } => format!("unknown import {module}.{name}"),
            Self::NotGranted(missing) => missing.problem(),
            Self::Directory { guest, host, why } => format!(
                "the directory {} that the handler is to see as {guest:?} cannot be opened: {why}",
                host.display()
            ),
            Self::ImportType(detail) => format!("an import has the wrong type: {detail}"),
            Self::ExportedImport { name } => format!("the export `{name}` is an imported function"),
            Self::NoHandle => "the module exports no function `handle`".to_owned(),
            Self::NoAlloc => {
                "`handle` takes a pointer, but the module exports no function `alloc(size: i32) -> i32` to get one".to_owned()
            }
            Self::ExportType { name, found, wanted } => format!(
                "the export `{name}` has the type {found}; it must be {wanted}"
            ),
            Self::TooLarge { .. }
            | Self::Memories(_)
            | Self::MemoryOverLimit { .. }
            | Self::TablesOverLimit { .. }
            | Self::Tables { .. }
            | Self::Functions { .. }
            | Self::PoolTables { .. } => self.limit_problem(),
        }
    }

    /// What is over which limit.
    fn limit_problem(&self) -> String {
        match self {
            Self::TooLarge { size, max } => {
                format!("the module has {size} bytes; at most {max} are allowed")
            }
            Self::Memories(detail) => format!("the module has {detail} memories; one is allowed"),
            Self::MemoryOverLimit { size, max } => {
                format!("the module's memory starts with {size} bytes; at most {max} are allowed")
            }
            Self::TablesOverLimit { size, max } => {
                format!("the module's tables start with {size} elements; at most {max} are allowed")
            }
            Self::Tables { size, max } => {
                format!("the module has {size} tables; at most {max} are allowed")
            }
            Self::Functions { size, max } => {
                format!("the module has {size} functions; at most {max} are allowed")
            }
            Self::PoolTables { wanted, max } => format!(
                "the topic's limit of {wanted} table elements is over the {max} this daemon started with"
            ),
            _ => "the module is over a limit".to_owned(),
        }
    }

    /// What to do about it, if the problem does not say it.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = match self {
            Self::NotGranted(missing) => return Some(missing.remedy().into()),
            Self::Empty | Self::Truncated(_) => {
                "if it was still being written, write it aside and rename it into place"
            }
            Self::TooLarge { .. } => {
                "build it smaller (strip debug information, optimise for size) or raise `module` of the topic's sandbox"
            }
            Self::NotWasm => "give the file that the compiler wrote",
            Self::Engine(_) => "check that this machine and its limits suit Wasmtime",
            Self::NoAlloc => "export it, or export `handle(len: i32) -> i32`",
            Self::Snapshot(_) => {
                "set snapshot = false, or correct the module (docs/reference/manifest.md says what a snapshot needs)"
            }
            Self::Component => {
                "build for wasm32-unknown-unknown or wasip1, without a componentizing step"
            }
            Self::Text(_) => "correct it there, or build a .wasm",
            Self::Invalid(_) => {
                "rebuild it for plain wasm32 (no threads, exceptions, garbage collection or 64-bit memory)"
            }
            Self::ImportedMemory { .. } => {
                "define it in the module and export it as \"memory\" (no --import-memory)"
            }
            Self::SharedMemory => "build it without threads and atomics",
            Self::Memory64 => "build it for wasm32",
            Self::Memories(_) => "build it with one memory",
            Self::NoMemory { .. } => "export it as \"memory\"",
            Self::MemoryOverLimit { .. } => {
                "raise `memory` of the topic's sandbox, or build with less initial memory"
            }
            Self::TablesOverLimit { .. } => "raise `tables` of the topic's sandbox",
            Self::Tables { .. } => "build it with fewer tables",
            Self::Functions { .. } => {
                "build it smaller (dead-code elimination, fewer dependencies)"
            }
            Self::PoolTables { .. } => "restart it to raise them",
            Self::Command => {
                "build a reactor / library, not a command (Rust: crate-type cdylib; Go: -buildmode=c-shared; clang: -mexec-model=reactor)"
            }
            Self::UnknownImport { .. } => {
                "handlers import from duebox_v1, wasi_snapshot_preview1 and AssemblyScript's env only (docs/reference/abi.md lists them)"
            }
            Self::Directory { .. } => "make it, or correct `dirs` of the topic's sandbox",
            Self::ImportType(_) => "docs/reference/abi.md has the signatures",
            Self::ExportedImport { .. } => "define it in the module",
            Self::NoHandle => {
                "export `handle(len: i32) -> i32`, or `handle(ptr: i32, len: i32) -> i32` with `alloc(size: i32) -> i32`"
            }
            Self::ExportType { .. } => "correct its signature (docs/reference/abi.md)",
        };
        Some(remedy.into())
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl Error for LoadError {}
