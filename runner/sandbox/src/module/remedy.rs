//! What to do about a refused module. Each remedy is an order: it begins with a verb.

use std::borrow::Cow;

use super::error::LoadError;

const INCOMPLETE: &str =
    "write it to another name and rename it into place, if it was still being written";
const TOO_LARGE: &str = "build it smaller (strip debug information, optimise for size) or raise `module` of the topic's sandbox";
const NOT_WASM: &str = "use the file that the compiler wrote";
const ENGINE: &str = "give the daemon more address space (ulimit -v, the memory limit of its container) and restart it, or remove `fuel` and `snapshot` of the topic's sandbox";
const SNAPSHOT: &str = "set snapshot = false, or correct the module (https://github.com/duebox/duebox/blob/main/docs/reference/manifest.md lists the requirements of a snapshot)";
const PROGRAM: &str = "correct the program, its top level runs when the handler is loaded (https://github.com/duebox/duebox/blob/main/docs/guide/languages.md lists what a source handler can do)";
const COMPONENT: &str = "build for wasm32-unknown-unknown or wasip1, without a componentizing step";
const TEXT: &str = "correct it there, or build a .wasm";
const INVALID: &str =
    "rebuild it for plain wasm32 (no threads, exceptions, garbage collection or 64-bit memory)";
const IMPORTED_MEMORY: &str =
    "define it in the module and export it as \"memory\" (no --import-memory)";
const SHARED_MEMORY: &str = "build it without threads and atomics";
const MEMORY64: &str = "build it for wasm32";
const MEMORIES: &str = "build it without the multi-memory feature";
const NO_MEMORY: &str = "export it as \"memory\"";
const MEMORY_OVER_LIMIT: &str =
    "raise `memory` of the topic's sandbox, or build with less initial memory";
const TABLES_OVER_LIMIT: &str = "raise `tables` of the topic's sandbox";
const TABLES: &str = "put its function references into fewer tables";
const TOO_COMPLEX: &str = "build it smaller (dead-code elimination, fewer dependencies)";
const IMPORTS: &str = "import each function once";
const TEXT_TOO_LARGE: &str = "convert it to a .wasm file";
const FUNCTION: &str = "split it, or build with optimisation";
const COMPILE_MEMORY: &str = "build it smaller, or raise runner.compile_memory";
const COMPILE_TIME: &str = "build it smaller, or raise runner.compile_time";
const POOL_TABLES: &str = "restart the daemon to raise it";
const COMMAND: &str = "build a reactor / library, not a command (Rust: crate-type cdylib; Go: -buildmode=c-shared; clang: -mexec-model=reactor)";
const UNKNOWN_IMPORT: &str = "import only what https://github.com/duebox/duebox/blob/main/docs/reference/abi.md lists: functions of duebox_v1, of wasi_snapshot_preview1 and of AssemblyScript's env";
const DIRECTORY: &str = "create it, or correct `dirs` of the topic's sandbox";
const IMPORT_TYPE: &str =
    "declare it as in https://github.com/duebox/duebox/blob/main/docs/reference/abi.md";
const EXPORTED_IMPORT: &str = "define it in the module";
const NO_HANDLE: &str = "export `handle(len: i32) -> i32`, or `handle(ptr: i32, len: i32) -> i32` with `alloc(size: i32) -> i32`";
const NO_ALLOC: &str = "export it, or take only the length: `handle(len: i32) -> i32`";
const EXPORT_TYPE: &str = "change its signature";
const COMPILER_START: &str = "allow this program to start itself";
const COMPILER_PROCESS: &str = "report it with the module";

impl LoadError {
    /// What to do about it.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::NotGranted(missing) => return Cow::Owned(missing.remedy()),
            Self::CompilerStart { .. } => COMPILER_START,
            Self::CompilerProcess { .. } => COMPILER_PROCESS,
            Self::Empty | Self::Truncated { .. } => INCOMPLETE,
            Self::TooLarge { .. } => TOO_LARGE,
            Self::NotWasm => NOT_WASM,
            Self::Engine { .. } => ENGINE,
            Self::Snapshot(_) => SNAPSHOT,
            Self::Program { .. } => PROGRAM,
            Self::Component => COMPONENT,
            Self::Text { .. } => TEXT,
            Self::Invalid { .. } => INVALID,
            Self::ImportedMemory { .. } => IMPORTED_MEMORY,
            Self::SharedMemory => SHARED_MEMORY,
            Self::Memory64 => MEMORY64,
            Self::Memories { .. } => MEMORIES,
            Self::NoMemory { .. } => NO_MEMORY,
            Self::MemoryOverLimit { .. } => MEMORY_OVER_LIMIT,
            Self::TablesOverLimit { .. } => TABLES_OVER_LIMIT,
            Self::Tables { .. } => TABLES,
            Self::Functions { .. } | Self::Code { .. } => TOO_COMPLEX,
            Self::Imports { .. } => IMPORTS,
            Self::TextTooLarge { .. } => TEXT_TOO_LARGE,
            Self::Function { .. } => FUNCTION,
            Self::CompileMemory { .. } => COMPILE_MEMORY,
            Self::CompileTime { .. } => COMPILE_TIME,
            Self::PoolTables { .. } => POOL_TABLES,
            Self::Command => COMMAND,
            Self::UnknownImport { .. } => UNKNOWN_IMPORT,
            Self::Directory { .. } => DIRECTORY,
            Self::ImportType { .. } => IMPORT_TYPE,
            Self::ExportedImport { .. } => EXPORTED_IMPORT,
            Self::NoHandle => NO_HANDLE,
            Self::NoAlloc => NO_ALLOC,
            Self::ExportType { .. } => EXPORT_TYPE,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::error::SnapshotError;
    use super::*;

    /// The verbs with which a remedy begins.
    const VERBS: [&str; 22] = [
        "allow", "build", "change", "convert", "correct", "create", "declare", "define", "export",
        "give", "import", "put", "raise", "rebuild", "remove", "restart", "set", "split", "strip",
        "take", "use", "write",
    ];

    #[test]
    fn every_refusal_has_a_remedy_apart_from_its_text() {
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
            LoadError::CompilerStart { reason: text() },
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
            let (problem, remedy) = (error.to_string(), error.remedy());
            let verb = remedy.split([' ', ',']).next().unwrap_or_default();
            assert!(VERBS.contains(&verb), "{error:?}: {remedy}");
            assert!(!problem.contains(&*remedy), "{error:?}: {problem}");
        }
    }
}
