//! From a module's file to linked code: check, compile (or take from the cache), and link.

pub(crate) mod cache;
mod capabilities;
mod check;
mod code;
mod codegen;
pub(crate) mod compile;
mod compile_request;
mod compiled_code;
mod compiler_main;
pub(crate) mod compiler_process;
mod debug_sections;
pub(crate) mod engine_context;
mod error;
mod evaluate;
pub(crate) mod exports;
mod init_time;
mod interpreter;
mod outline;
mod own_binary;
mod remedy;
mod seeded_random;
mod segments;
pub(crate) mod snapshot;

pub use capabilities::{Capability, MissingCapabilities};
pub use compile::Script;
pub use compiler_main::run_compiler;
pub use compiler_process::CompilerProcess;
pub use debug_sections::without_debug_sections;
pub use error::{LoadError, SnapshotError};
pub use outline::{ModuleOutline, OutlineExport, OutlineImport, OutlineSection, Producer};
