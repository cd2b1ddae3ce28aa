//! Why a module is refused. The text says what failed, on what; [`LoadError::remedy`] says what to do about it.
//! The caller adds the name of the file.

use std::path::PathBuf;

use super::capabilities::MissingCapabilities;
use crate::imports::wasi::DirError;

/// Why a module is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is empty.
    #[error("the module is empty")]
    Empty,
    /// The file exceeds the limit.
    #[error("the module has {size} bytes; at most {max} are allowed")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The file is neither a binary nor a text module.
    #[error(
        "this is not a WebAssembly module: it starts neither with `\\0asm` (.wasm) nor with text (.wat)"
    )]
    NotWasm,
    /// The engine for modules of this kind (with a fuel limit, or from a snapshot) does not start.
    #[error("the module needs another engine, which does not start: {reason}")]
    Engine {
        /// The error of the engine.
        reason: String,
    },
    /// No snapshot of the module can be taken.
    #[error("no snapshot of the module can be taken: {0}")]
    Snapshot(#[from] SnapshotError),
    /// A program in a language that an interpreter runs fails when it is evaluated.
    #[error("{reason}")]
    Program {
        /// The error, with its place in the program.
        reason: String,
    },
    /// The file is a component, not a core module.
    #[error("this is a WebAssembly component; handlers are core modules")]
    Component,
    /// The text module does not parse.
    #[error("the module's text does not parse: {reason}")]
    Text {
        /// The error with its line and column.
        reason: String,
    },
    /// The file ends too early.
    #[error("the module is truncated at byte {size}")]
    Truncated {
        /// Its size in bytes.
        size: usize,
    },
    /// The module breaks a rule of WebAssembly, or uses a feature that is disabled.
    #[error("the module is not valid: {reason}")]
    Invalid {
        /// The error of the parser or the compiler.
        reason: String,
    },
    /// The module imports its memory.
    #[error("the module imports its memory ({module}.{name})")]
    ImportedMemory {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// The module's memory is shared between threads.
    #[error("the module's memory is shared")]
    SharedMemory,
    /// The module's memory has 64-bit addresses.
    #[error("the module's memory has 64-bit addresses")]
    Memory64,
    /// The module has more than one memory.
    #[error("the module has {count} memories; one is allowed")]
    Memories {
        /// How many it has.
        count: usize,
    },
    /// The module needs a memory but exports none.
    #[error("the module exports no memory, but {needs} needs one")]
    NoMemory {
        /// What needs it.
        needs: String,
    },
    /// The module's initial memory exceeds the limit.
    #[error("the module's memory starts with {size} bytes; at most {max} are allowed")]
    MemoryOverLimit {
        /// Its initial size in bytes.
        size: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The module's initial tables exceed the limit.
    #[error("the module's tables start with {size} elements; at most {max} are allowed")]
    TablesOverLimit {
        /// The initial size of all tables.
        size: u64,
        /// The limit.
        max: u32,
    },
    /// The module has too many tables.
    #[error("the module has {size} tables; at most {max} are allowed")]
    Tables {
        /// How many it has.
        size: usize,
        /// The limit.
        max: u32,
    },
    /// The module has too many functions.
    #[error("the module has {size} functions; at most {max} are allowed")]
    Functions {
        /// How many it has.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// The module has too many imports.
    #[error("the module has more than {max} imports")]
    Imports {
        /// The limit.
        max: u32,
    },
    /// The text of a text module is too long.
    #[error("the module's text has {size} bytes; at most {max} are allowed for text")]
    TextTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A function of the module is too complex for the compiler.
    #[error("function {function} of the module has {size} {what}; at most {max} are allowed")]
    Function {
        /// Its number among the functions that the module defines, from 0.
        function: u32,
        /// What there is too much of.
        what: &'static str,
        /// How much there is, as far as it was counted.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The code of the module is too complex for the compiler.
    #[error("the module has {size} {what}; at most {max} are allowed")]
    Code {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The module needs too much memory to compile.
    #[error("the module needs more than {mib} MiB to compile")]
    CompileMemory {
        /// The limit in MiB.
        mib: usize,
    },
    /// The module needs too much time to compile.
    #[error("the module needs more than {seconds} s to compile")]
    CompileTime {
        /// The limit in seconds.
        seconds: u64,
    },
    /// The process that compiles modules did not start.
    #[error("the module could not be compiled: {reason}")]
    CompilerStart {
        /// What failed.
        reason: String,
    },
    /// The process that compiles modules ended without a result.
    #[error("the module could not be compiled: {reason}")]
    CompilerProcess {
        /// What failed.
        reason: String,
    },
    /// The topic's table limit exceeds the size of the pool.
    #[error(
        "the topic's limit of {wanted} table elements exceeds the {max} that this daemon started with"
    )]
    PoolTables {
        /// The topic's limit.
        wanted: u32,
        /// The size of the pool's tables.
        max: u32,
    },
    /// The module is a command.
    #[error("the module exports `_start`")]
    Command,
    /// The module has an import that is not part of the ABI.
    #[error("unknown import {module}.{name}")]
    UnknownImport {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// The module has imports that the topic does not grant.
    #[error("{0}")]
    NotGranted(MissingCapabilities),
    /// A directory that the topic grants cannot be opened.
    #[error(
        "the directory {} that the handler sees as {guest:?} cannot be opened: {reason}",
        host.display()
    )]
    Directory {
        /// Its path in the guest.
        guest: String,
        /// Its path on the host.
        host: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An import has another signature than the ABI.
    #[error("an import has the wrong type: {reason}")]
    ImportType {
        /// The error of the linker.
        reason: String,
    },
    /// A function that the host calls is an imported one.
    #[error("the export `{name}` is an imported function")]
    ExportedImport {
        /// The export's name.
        name: String,
    },
    /// The module exports no `handle`.
    #[error("the module exports no function `handle`")]
    NoHandle,
    /// `handle` takes a pointer, but there is no `alloc`.
    #[error(
        "`handle` takes a pointer, but the module exports no function `alloc(size: i32) -> i32` that returns one"
    )]
    NoAlloc,
    /// An export has the wrong signature.
    #[error("the export `{name}` has the type {found}; it must be {wanted}")]
    ExportType {
        /// The export's name.
        name: &'static str,
        /// The type it has.
        found: String,
        /// The types it may have.
        wanted: &'static str,
    },
}

impl From<DirError> for LoadError {
    fn from(DirError { guest, host, reason }: DirError) -> Self {
        Self::Directory { guest, host, reason }
    }
}

/// Why no snapshot of a module can be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum SnapshotError {
    /// The module uses a feature that a snapshot cannot contain.
    #[error("{reason}")]
    Unsupported {
        /// The error of Wizer or of the engine.
        reason: String,
    },
    /// `_initialize` failed.
    #[error("its _initialize failed: {reason}{}", log_suffix(log))]
    Initialize {
        /// Why it failed.
        reason: String,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// Wizer panicked.
    #[error("this module is not supported")]
    Panicked,
    /// No thread can be started.
    #[error("no thread can be started for it")]
    Thread,
}

fn log_suffix(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its log: {}", log.join("; ")) }
}
