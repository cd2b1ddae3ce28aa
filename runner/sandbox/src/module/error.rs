//! Why a module, or the whole sandbox, is refused. Every text says what failed, on what, and the
//! remedy; the caller adds which file it was.

use crate::module::missing::Missing;

/// Why the sandbox cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Wasmtime does not start on this machine.
    #[error(
        "the WebAssembly engine does not start: {0}; this machine or its limits do not suit it"
    )]
    Engine(String),
    /// A thread of the sandbox does not start.
    #[error(
        "cannot start the sandbox's {what} thread: {why}; raise the limit of processes (ulimit -u, pids.max)"
    )]
    Thread {
        /// Which thread.
        what: &'static str,
        /// What the machine said.
        why: String,
    },
    /// The directory of compiled modules is not to be trusted, or not to be had.
    #[error(
        "the cache {} cannot be used: {why}; name a directory that only this user can write, or write cache = \"\" to do without",
        path.display()
    )]
    Cache {
        /// The directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// Why a module is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The file has no byte.
    #[error(
        "the module is empty; was it still being written? Write it aside and rename it into place"
    )]
    Empty,
    /// The file is over the limit.
    #[error(
        "the module has {size} bytes; at most {max} are allowed. Build it smaller (strip debug information, optimise for size) or raise `module` of the topic's sandbox"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// Neither a binary nor a text module.
    #[error(
        "this is no WebAssembly module: it starts neither with `\\0asm` (.wasm) nor with text (.wat); give the file that the compiler wrote"
    )]
    NotWasm,
    /// The engine for modules of its kind (with a budget of fuel, from a snapshot) does not start.
    #[error("the module needs an engine of its kind, which does not start: {0}")]
    Engine(String),
    /// No snapshot of the module can be taken.
    #[error(
        "no snapshot of the module can be taken: {0}; set snapshot = false, or correct the module (docs/reference/manifest.md says what a snapshot needs)"
    )]
    Snapshot(String),
    /// A component, not a core module.
    #[error(
        "this is a WebAssembly component; handlers are core modules. Build for wasm32-unknown-unknown or wasip1, without a componentizing step"
    )]
    Component,
    /// A text module that does not parse.
    #[error("the module's text does not parse: {0}; correct it there, or build a .wasm")]
    Text(String),
    /// The file ends too early.
    #[error(
        "the module ends in the middle, at byte {0}; was it still being written? Write it aside and rename it into place"
    )]
    Truncated(usize),
    /// The bytes break a rule of WebAssembly, or use a feature that is off.
    #[error(
        "the module is not valid: {0}; rebuild it for plain wasm32 (no threads, exceptions, garbage collection or 64-bit memory)"
    )]
    Invalid(String),
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
    #[error("the module has {0} memories; one is allowed")]
    Memories(usize),
    /// The module needs a memory but exports none.
    #[error("the module exports no memory, but {needs} needs one; export it as \"memory\"")]
    NoMemory {
        /// What needs it.
        needs: String,
    },
    /// The module's memory starts over the limit.
    #[error(
        "the module's memory starts with {size} bytes; at most {max} are allowed. Raise `memory` of the topic's sandbox, or build with less initial memory"
    )]
    MemoryOverLimit {
        /// Its first size in bytes.
        size: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// The module's tables start over the limit.
    #[error(
        "the module's tables start with {size} elements; at most {max} are allowed. Raise `tables` of the topic's sandbox"
    )]
    TablesOverLimit {
        /// The first size of all tables.
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
    /// The module has too many functions to be compiled in reasonable time and memory.
    #[error(
        "the module has {size} functions; at most {max} are allowed. Build it smaller (dead-code elimination, fewer dependencies)"
    )]
    Functions {
        /// How many it has.
        size: u32,
        /// The limit.
        max: u32,
    },
    /// The topic's table limit is over what the pool was built for.
    #[error(
        "the topic's limit of {wanted} table elements is over the {max} this daemon started with; restart it to raise them"
    )]
    PoolTables {
        /// The topic's limit.
        wanted: u32,
        /// What the pool holds.
        max: u32,
    },
    /// The module is a command.
    #[error(
        "the module exports `_start`; build a reactor / library, not a command (Rust: crate-type cdylib; Go: -buildmode=c-shared; clang: -mexec-model=reactor)"
    )]
    Command,
    /// An import that is not part of the ABI.
    #[error(
        "unknown import {module}.{name}; handlers import from duebox_v1, wasi_snapshot_preview1 and AssemblyScript's env only (docs/reference/abi.md lists them)"
    )]
    UnknownImport {
        /// The import's namespace.
        module: String,
        /// The import's name.
        name: String,
    },
    /// Imports of the ABI that the topic does not grant.
    #[error("{0}")]
    NotGranted(Missing),
    /// A directory that the topic grants cannot be had.
    #[error(
        "the directory {} that the handler is to see as {guest:?} cannot be opened: {why}; make it, or correct `dirs` of the topic's sandbox",
        host.display()
    )]
    Directory {
        /// Its name for the guest.
        guest: String,
        /// Where it is to be.
        host: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An import with another signature than the ABI's.
    #[error("an import has the wrong type: {0}; docs/reference/abi.md has the signatures")]
    ImportType(String),
    /// A function that the host calls is one of the host's own.
    #[error("the export `{name}` is an imported function; define it in the module")]
    ExportedImport {
        /// The export's name.
        name: String,
    },
    /// There is no `handle`.
    #[error(
        "the module exports no function `handle`; export `handle(len: i32) -> i32`, or `handle(ptr: i32, len: i32) -> i32` with `alloc(size: i32) -> i32`"
    )]
    NoHandle,
    /// `handle` comes with a pointer, but nobody can ask for one.
    #[error(
        "`handle` takes a pointer, but the module exports no function `alloc(size: i32) -> i32` to get one"
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
