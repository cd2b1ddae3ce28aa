//! Checks a module section by section before it is compiled. A module that cannot be a handler is refused
//! with a remedy, before any work is spent on it.

use wasmparser::{
    BinaryReaderError, Encoding, Export, ExternalKind, Import, MemoryType, Parser, Payload, TypeRef,
};

use super::capabilities::{Capability, MissingCapabilities};
use super::error::LoadError;
use crate::grants::Grants;
use crate::imports;
use crate::limits::{Limits, TABLES_PER_MODULE};

/// How many functions a module may have. Large handlers of Go have some ten thousand. Each function costs
/// the compiler about 100 µs and 5 KiB.
const FUNCTIONS_MAX: u32 = 100_000;
/// How many imports a module may have, several times as many as exist.
const IMPORTS_MAX: u32 = 1_000;

/// What the sections contain, as far as the check uses it.
#[derive(Default)]
struct Outline {
    memories: Vec<MemoryType>,
    /// The initial size of each table, in elements.
    tables: Vec<u64>,
    functions: u32,
    imported_functions: u32,
    /// The first import that takes a pointer.
    pointer_import: Option<String>,
    exports_memory: bool,
    exports_handle: bool,
    exports_start: bool,
    missing: MissingCapabilities,
}

/// Checks a binary module against the ABI, and against the topic's limits and grants.
pub(super) fn check(binary: &[u8], limits: &Limits, grants: &Grants) -> Result<(), LoadError> {
    let outline = read(binary, grants)?;
    if !outline.missing.is_empty() {
        return Err(LoadError::NotGranted(outline.missing));
    }
    if outline.functions > FUNCTIONS_MAX {
        return Err(LoadError::Functions { size: outline.functions, max: FUNCTIONS_MAX });
    }
    check_memories(&outline.memories, limits)?;
    check_tables(&outline.tables, limits)?;
    if outline.exports_start {
        return Err(LoadError::Command);
    }
    if !outline.exports_handle {
        return Err(LoadError::NoHandle);
    }
    match outline.pointer_import {
        Some(needs) if !outline.exports_memory => Err(LoadError::NoMemory { needs }),
        _ => Ok(()),
    }
}

fn read(binary: &[u8], grants: &Grants) -> Result<Outline, LoadError> {
    let malformed = |error: BinaryReaderError| malformed(&error, binary.len());
    let mut outline = Outline::default();
    for payload in Parser::new(0).parse_all(binary) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Component, .. } => {
                return Err(LoadError::Component);
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    outline.add_import(import.map_err(malformed)?, grants)?;
                    if outline.imported_functions > IMPORTS_MAX {
                        return Err(LoadError::Imports { max: IMPORTS_MAX });
                    }
                }
            }
            Payload::FunctionSection(section) => outline.functions = section.count(),
            Payload::TableSection(section) => {
                for table in section {
                    outline.tables.push(table.map_err(malformed)?.ty.initial);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    outline.memories.push(memory.map_err(malformed)?);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    outline.add_export(export.map_err(malformed)?)?;
                }
            }
            _ => {}
        }
    }
    Ok(outline)
}

fn malformed(error: &BinaryReaderError, size: usize) -> LoadError {
    // The parser has no other mark for a module that is cut off.
    if error.message().starts_with("unexpected end") {
        LoadError::Truncated { size }
    } else {
        LoadError::Invalid { reason: error.to_string() }
    }
}

impl Outline {
    /// Adds an import, or refuses it by its name.
    fn add_import(&mut self, import: Import<'_>, grants: &Grants) -> Result<(), LoadError> {
        let (module, name) = (import.module.to_owned(), import.name.to_owned());
        match import.ty {
            TypeRef::Memory(memory) if memory.shared => return Err(LoadError::SharedMemory),
            TypeRef::Memory(_) => return Err(LoadError::ImportedMemory { module, name }),
            TypeRef::Func(_) => self.imported_functions += 1,
            _ => return Err(LoadError::UnknownImport { module, name }),
        }
        let Some(takes_pointer) = imports::takes_pointer(import.module, import.name) else {
            return Err(LoadError::UnknownImport { module, name });
        };
        if let Some(capability) = Capability::missing_for(import.module, import.name, grants) {
            self.missing.add(format!("{module}.{name}"), capability);
        }
        if takes_pointer && self.pointer_import.is_none() {
            self.pointer_import = Some(format!("the import {module}.{name}"));
        }
        Ok(())
    }

    /// Adds an export. The functions that the host calls must be defined in the module: an imported
    /// function runs outside of any instance, without a memory.
    fn add_export(&mut self, export: Export<'_>) -> Result<(), LoadError> {
        let is_called = matches!(export.name, "handle" | "alloc" | "_initialize");
        if is_called && export.kind == ExternalKind::Func && export.index < self.imported_functions
        {
            return Err(LoadError::ExportedImport { name: export.name.to_owned() });
        }
        match (export.name, export.kind) {
            ("memory", ExternalKind::Memory) => self.exports_memory = true,
            ("handle", ExternalKind::Func) => self.exports_handle = true,
            ("_start", _) => self.exports_start = true,
            _ => {}
        }
        Ok(())
    }
}

fn check_memories(memories: &[MemoryType], limits: &Limits) -> Result<(), LoadError> {
    if memories.iter().any(|memory| memory.shared) {
        return Err(LoadError::SharedMemory);
    }
    if memories.iter().any(|memory| memory.memory64) {
        return Err(LoadError::Memory64);
    }
    if memories.len() > 1 {
        return Err(LoadError::Memories { count: memories.len() });
    }
    let page = |memory: &MemoryType| 1_u64 << memory.page_size_log2.unwrap_or(16).min(16);
    let size = memories.first().map_or(0, |memory| memory.initial.saturating_mul(page(memory)));
    if size > limits.memory as u64 {
        return Err(LoadError::MemoryOverLimit { size, max: limits.memory });
    }
    Ok(())
}

fn check_tables(tables: &[u64], limits: &Limits) -> Result<(), LoadError> {
    if tables.len() > TABLES_PER_MODULE as usize {
        return Err(LoadError::Tables { size: tables.len(), max: TABLES_PER_MODULE });
    }
    let size = tables.iter().fold(0_u64, |sum, table| sum.saturating_add(*table));
    if size > limits.tables.into() {
        return Err(LoadError::TablesOverLimit { size, max: limits.tables });
    }
    Ok(())
}
