//! The size of a sandbox. It is fixed when the sandbox starts.

/// The size of a sandbox.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// How many guests run at the same time, 1 or more. A job beyond this number does not wait: its run
    /// ends as a host fault.
    pub max_jobs: u32,
    /// The largest memory limit of any topic, in bytes. It bounds the memory that an idle pool slot keeps.
    /// A topic may exceed it after a reload.
    pub memory_max: usize,
    /// The largest table limit of any topic, in elements. The pool is built for at least 1,000,000.
    pub tables_max: u32,
}
