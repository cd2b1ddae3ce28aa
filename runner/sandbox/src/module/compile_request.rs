//! What the daemon and the process that compiles for it say to each other. The request is one line of JSON
//! and the binary module. The reply is one line of JSON and the code.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::codegen::{CodeForm, CompileTask};
use super::error::{LoadError, SnapshotError};
use crate::engine::EngineKind;
use crate::grants::Grants;
use crate::limits::{Instances, Limits};

/// A module to compile, without its bytes.
#[derive(Serialize, Deserialize)]
pub(super) struct CompileRequest {
    /// Bytes of memory that the process may use.
    pub(super) memory_max: u64,
    /// Seconds of CPU time that it may use.
    pub(super) cpu_max: u64,
    pub(super) form: CodeForm,
    fuel: Option<NonZeroU64>,
    memory: usize,
    tables: u32,
    log: usize,
    env: BTreeMap<String, String>,
    dirs: BTreeMap<String, PathBuf>,
}

/// The first line of the reply. Code follows only after `Compiled`.
#[derive(Serialize, Deserialize)]
pub(super) enum CompileReply {
    Compiled,
    Invalid { reason: String },
    UnknownImport { module: String, name: String },
    ImportType { reason: String },
    Snapshot(SnapshotError),
    OutOfMemory,
}

impl CompileRequest {
    pub(super) fn new(task: &CompileTask<'_>, memory_max: u64, cpu_max: u64) -> Self {
        let CompileTask { limits, grants, form, .. } = *task;
        let takes_snapshot = matches!(form, CodeForm::Snapshot(_));
        // The instance of which the snapshot is taken has its memory in the same process.
        let guest = if takes_snapshot { limits.memory as u64 } else { 0 };
        let (env, dirs) = match takes_snapshot {
            true => (grants.env.clone(), grants.dirs.clone()),
            false => Default::default(),
        };
        Self {
            memory_max: memory_max.saturating_add(guest),
            cpu_max,
            form,
            fuel: limits.fuel,
            memory: limits.memory,
            tables: limits.tables,
            log: limits.log,
            env,
            dirs,
        }
    }

    pub(super) fn kind(&self) -> EngineKind {
        EngineKind { counts_fuel: self.fuel.is_some(), resets_instances: self.takes_snapshot() }
    }

    fn takes_snapshot(&self) -> bool {
        matches!(self.form, CodeForm::Snapshot(_))
    }

    pub(super) fn limits(&self) -> Limits {
        let instances = Instances { snapshot: self.takes_snapshot(), jobs_each: 1 };
        let Self { memory, tables, log, fuel, .. } = *self;
        Limits { memory, tables, log, fuel, instances, ..Limits::default() }
    }

    pub(super) fn grants(&self) -> Grants {
        Grants { env: self.env.clone(), dirs: self.dirs.clone(), ..Grants::default() }
    }
}

impl CompileReply {
    /// The reply for an error of the code generator.
    pub(super) fn of_error(error: LoadError) -> Self {
        match error {
            LoadError::UnknownImport { module, name } => Self::UnknownImport { module, name },
            LoadError::ImportType { reason } => Self::ImportType { reason },
            LoadError::Snapshot(error) => Self::Snapshot(error),
            LoadError::CompileMemory { .. } => Self::OutOfMemory,
            LoadError::Invalid { reason } => Self::Invalid { reason },
            other => Self::Invalid { reason: other.to_string() },
        }
    }

    /// The error that the reply states, if it states one.
    pub(super) fn into_error(self, memory_mib: usize) -> Option<LoadError> {
        Some(match self {
            Self::Compiled => return None,
            Self::Invalid { reason } => LoadError::Invalid { reason },
            Self::UnknownImport { module, name } => LoadError::UnknownImport { module, name },
            Self::ImportType { reason } => LoadError::ImportType { reason },
            Self::Snapshot(error) => LoadError::Snapshot(error),
            Self::OutOfMemory => LoadError::CompileMemory { mib: memory_mib },
        })
    }
}
