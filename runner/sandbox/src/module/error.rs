//! Why a module is refused. Every text says what failed, on what, and the remedy. The caller adds the name
//! of the file.

use std::path::PathBuf;

use super::capabilities::MissingCapabilities;
use crate::imports::wasi::DirError;

/// Why a module is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file is empty.
    #[error(
        "the module is empty; was it still being written? Write it to another name and rename it into place"
    )]
    Empty,
    /// The file exceeds the limit.
    #[error(
        "the module has {size} bytes; at most {max} are allowed. Build it smaller (strip debug information, optimise for size) or raise `module` of the topic's sandbox"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The file is neither a binary nor a text module.
    #[error(
        "this is not a WebAssembly module: it starts neither with `\\0asm` (.wasm) nor with text (.wat); use the file that the compiler wrote"
    )]
    NotWasm,
    /// The engine for modules of this kind (with a fuel limit, or from a snapshot) does not start.
    #[error(
        "the module needs another engine, which does not start: {reason}; give the daemon more address space (ulimit -v, the memory limit of its container) and restart it, or remove `fuel` and `snapshot` of the topic's sandbox"
    )]
    Engine {
        /// The error of the engine.
        reason: String,
    },
    /// No snapshot of the module can be taken.
    #[error(
        "no snapshot of the module can be taken: {0}; set snapshot = false, or correct the module (docs/reference/manifest.md lists the requirements of a snapshot)"
    )]
    Snapshot(#[from] SnapshotError),
    /// A program in a language that an interpreter runs fails when it is evaluated.
    #[error("{reason}; correct the program, its top level runs when the handler is loaded")]
    Program {
        /// The error, with its place in the program.
        reason: String,
    },
    /// The file is a component, not a core module.
    #[error(
        "this is a WebAssembly component; handlers are core modules. Build for wasm32-unknown-unknown or wasip1, without a componentizing step"
    )]
    Component,
    /// The text module does not parse.
    #[error("the module's text does not parse: {reason}; correct it there, or build a .wasm")]
    Text {
        /// The error with its line and column.
        reason: String,
    },
    /// The file ends too early.
    #[error(
        "the module is truncated at byte {size}; was it still being written? Write it to another name and rename it into place"
    )]
    Truncated {
        /// Its size in bytes.
        size: usize,
    },
    /// The module breaks a rule of WebAssembly, or uses a feature that is disabled.
    #[error(
        "the module is not valid: {reason}; rebuild it for plain wasm32 (no threads, exceptions, garbage collection or 64-bit memory)"
    )]
    Invalid {
        /// The error of the parser or the compiler.
        reason: String,
    },
    /// The module imports its memory.
    #[error(
        "the module imports its memory ({module}.{name}); define it in the module and export it as \"memory\" (no --import-memory)"
    )]
    ImportedMemory {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// The module's memory is shared between threads.
    #[error("the module's memory is shared; build it without threads and atomics")]
    SharedMemory,
    /// The module's memory has 64-bit addresses.
    #[error("the module's memory has 64-bit addresses; build it for wasm32")]
    Memory64,
    /// The module has more than one memory.
    #[error(
        "the module has {count} memories; one is allowed. Build it without the multi-memory feature"
    )]
    Memories {
        /// How many it has.
        count: usize,
    },
    /// The module needs a memory but exports none.
    #[error("the module exports no memory, but {needs} needs one; export it as \"memory\"")]
    NoMemory {
        /// What needs it.
        needs: String,
    },
    /// The module's initial memory exceeds the limit.
    #[error(
        "the module's memory starts with {size} bytes; at most {max} are allowed. Raise `memory` of the topic's sandbox, or build with less initial memory"
    )]
    MemoryOverLimit {
        /// Its initial size in bytes.
        size: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The module's initial tables exceed the limit.
    #[error(
        "the module's tables start with {size} elements; at most {max} are allowed. Raise `tables` of the topic's sandbox"
    )]
    TablesOverLimit {
        /// The initial size of all tables.
        size: u64,
        /// The limit.
        max: u32,
    },
    /// The module has too many tables.
    #[error(
        "the module has {size} tables; at most {max} are allowed. Put its function references into fewer tables"
    )]
    Tables {
        /// How many it has.
        size: usize,
        /// The limit.
        max: u32,
    },
    /// The module has too many functions.
    #[error(
        "the module has {size} functions; at most {max} are allowed. Build it smaller (dead-code elimination, fewer dependencies)"
    )]
    Functions {
        /// How many it has.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// The module has too many imports.
    #[error("the module has more than {max} imports; import each function once")]
    Imports {
        /// The limit.
        max: u32,
    },
    /// The text of a text module is too long.
    #[error(
        "the module's text has {size} bytes; at most {max} are allowed for text. Convert it to a .wasm file"
    )]
    TextTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A function of the module is too complex for the compiler.
    #[error(
        "function {function} of the module has {size} {what}; at most {max} are allowed. Split it, or build with optimisation"
    )]
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
    #[error(
        "the module has {size} {what}; at most {max} are allowed. Build it smaller (dead-code elimination, fewer dependencies)"
    )]
    Code {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// The module needs too much memory to compile.
    #[error(
        "the module needs more than {mib} MiB to compile; build it smaller, or raise runner.compile_memory"
    )]
    CompileMemory {
        /// The limit in MiB.
        mib: usize,
    },
    /// The module needs too much time to compile.
    #[error(
        "the module needs more than {seconds} s to compile; build it smaller, or raise runner.compile_time"
    )]
    CompileTime {
        /// The limit in seconds.
        seconds: u64,
    },
    /// The process that compiles modules did not start, or ended without a result.
    #[error("the module could not be compiled: {reason}")]
    CompilerProcess {
        /// What failed, and the remedy.
        reason: String,
    },
    /// The topic's table limit exceeds the size of the pool.
    #[error(
        "the topic's limit of {wanted} table elements exceeds the {max} that this daemon started with; restart the daemon to raise it"
    )]
    PoolTables {
        /// The topic's limit.
        wanted: u32,
        /// The size of the pool's tables.
        max: u32,
    },
    /// The module is a command.
    #[error(
        "the module exports `_start`; build a reactor / library, not a command (Rust: crate-type cdylib; Go: -buildmode=c-shared; clang: -mexec-model=reactor)"
    )]
    Command,
    /// The module has an import that is not part of the ABI.
    #[error(
        "unknown import {module}.{name}; import only what docs/reference/abi.md lists: functions of duebox_v1, of wasi_snapshot_preview1 and of AssemblyScript's env"
    )]
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
        "the directory {} that the handler sees as {guest:?} cannot be opened: {reason}; create it, or correct `dirs` of the topic's sandbox",
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
    #[error("an import has the wrong type: {reason}; declare it as in docs/reference/abi.md")]
    ImportType {
        /// The error of the linker.
        reason: String,
    },
    /// A function that the host calls is an imported one.
    #[error("the export `{name}` is an imported function; define it in the module")]
    ExportedImport {
        /// The export's name.
        name: String,
    },
    /// The module exports no `handle`.
    #[error(
        "the module exports no function `handle`; export `handle(len: i32) -> i32`, or `handle(ptr: i32, len: i32) -> i32` with `alloc(size: i32) -> i32`"
    )]
    NoHandle,
    /// `handle` takes a pointer, but there is no `alloc`.
    #[error(
        "`handle` takes a pointer, but the module exports no function `alloc(size: i32) -> i32` that returns one; export it, or take only the length: `handle(len: i32) -> i32`"
    )]
    NoAlloc,
    /// An export has the wrong signature.
    #[error("the export `{name}` has the type {found}; it must be {wanted}. Change its signature")]
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The verbs with which a remedy begins.
    const VERBS: [&str; 21] = [
        "build", "change", "convert", "correct", "create", "declare", "define", "export", "give",
        "import", "put", "raise", "rebuild", "remove", "restart", "set", "split", "strip", "take",
        "use", "write",
    ];

    #[test]
    fn every_refusal_says_its_remedy() {
        let text = || "x".to_owned();
        let all = [
            LoadError::Empty,
            LoadError::TooLarge { size: 2, max: 1 },
            LoadError::NotWasm,
            LoadError::Engine { reason: text() },
            LoadError::Snapshot(SnapshotError::Panicked),
            LoadError::Component,
            LoadError::Text { reason: text() },
            LoadError::Truncated { size: 1 },
            LoadError::Invalid { reason: text() },
            LoadError::ImportedMemory { module: text(), name: text() },
            LoadError::SharedMemory,
            LoadError::Memory64,
            LoadError::Memories { count: 2 },
            LoadError::NoMemory { needs: text() },
            LoadError::MemoryOverLimit { size: 2, max: 1 },
            LoadError::TablesOverLimit { size: 2, max: 1 },
            LoadError::Tables { size: 2, max: 1 },
            LoadError::Functions { size: 2, max: 1 },
            LoadError::Imports { max: 1 },
            LoadError::TextTooLarge { size: 2, max: 1 },
            LoadError::Function { function: 0, what: "locals", size: 2, max: 1 },
            LoadError::Code { what: "locals", size: 2, max: 1 },
            LoadError::CompileMemory { mib: 1 },
            LoadError::CompileTime { seconds: 1 },
            LoadError::PoolTables { wanted: 2, max: 1 },
            LoadError::Command,
            LoadError::UnknownImport { module: text(), name: text() },
            LoadError::Directory { guest: text(), host: PathBuf::new(), reason: text() },
            LoadError::ImportType { reason: text() },
            LoadError::ExportedImport { name: text() },
            LoadError::NoHandle,
            LoadError::NoAlloc,
            LoadError::ExportType { name: "handle", found: text(), wanted: "(i32)" },
        ];
        for error in all {
            let text = error.to_string().to_lowercase();
            let words: Vec<&str> = text.split_whitespace().collect();
            let begins = |at: usize| words[at - 1].ends_with([';', '.', ',', '?']);
            let has_remedy = (1..words.len()).any(|at| begins(at) && VERBS.contains(&words[at]));
            assert!(has_remedy, "{error:?}: {error}");
        }
    }
}
