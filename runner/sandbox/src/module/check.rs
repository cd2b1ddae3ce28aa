//! A module as it is before it is compiled: looked over section by section, so that what cannot be a
//! handler is refused with its remedy, and before any work is spent on it.

use wasmparser::{
    BinaryReaderError, Encoding, Export, ExternalKind, Import, MemoryType, Parser, Payload, TypeRef,
};

use crate::imports::abi;
use crate::imports::assemblyscript;
use crate::imports::http;
use crate::imports::kv;
use crate::imports::push;
use crate::imports::wasi;
use crate::limits::{Grants, Limits, TABLES_PER_MODULE};
use crate::module::error::LoadError;
use crate::module::missing::{Grant, Missing};

/// Functions a module may have. Go's largest handlers have some ten thousands; each costs the compiler
/// about 100 µs and 5 KiB.
const FUNCTIONS_MAX: u32 = 100_000;

/// What the sections say, as far as it matters here.
#[derive(Default)]
struct Outline {
    memories: Vec<MemoryType>,
    tables: Vec<u64>,
    functions: u32,
    imported_functions: u32,
    /// The first import that takes a pointer.
    pointer_import: Option<String>,
    exports_memory: bool,
    exports_handle: bool,
    exports_start: bool,
    missing: Missing,
}

/// Checks a binary module against the ABI and the topic's limits and grants, as far as its sections
/// tell.
pub(crate) fn check(binary: &[u8], limits: &Limits, grants: &Grants) -> Result<(), LoadError> {
    let outline = read(binary, grants)?;
    if !outline.missing.is_nothing() {
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
    let bad = |error: BinaryReaderError| malformed(&error, binary.len());
    let mut outline = Outline::default();
    for payload in Parser::new(0).parse_all(binary) {
        match payload.map_err(bad)? {
            Payload::Version { encoding: Encoding::Component, .. } => {
                return Err(LoadError::Component);
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    outline.import(import.map_err(bad)?, grants)?;
                }
            }
            Payload::FunctionSection(section) => outline.functions = section.count(),
            Payload::TableSection(section) => {
                for table in section {
                    outline.tables.push(table.map_err(bad)?.ty.initial);
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    outline.memories.push(memory.map_err(bad)?);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    outline.export(export.map_err(bad)?)?;
                }
            }
            _ => {}
        }
    }
    Ok(outline)
}

fn malformed(error: &BinaryReaderError, size: usize) -> LoadError {
    // The parser's word for "more bytes are needed"; sections promise their length beforehand.
    if error.message().starts_with("unexpected end") {
        LoadError::Truncated(size)
    } else {
        LoadError::Invalid(error.to_string())
    }
}

impl Outline {
    /// Takes one import, or refuses it by name. WASI's own names are the linker's to know.
    fn import(&mut self, import: Import<'_>, grants: &Grants) -> Result<(), LoadError> {
        let (module, name) = (import.module.to_owned(), import.name.to_owned());
        match import.ty {
            TypeRef::Memory(memory) if memory.shared => return Err(LoadError::SharedMemory),
            TypeRef::Memory(_) => return Err(LoadError::ImportedMemory { module, name }),
            TypeRef::Func(_) => self.imported_functions += 1,
            _ => return Err(LoadError::UnknownImport { module, name }),
        }
        match takes_pointer(import.module, import.name) {
            None => Err(LoadError::UnknownImport { module, name }),
            Some(pointer) => {
                if import.module == abi::NAMESPACE
                    && let Some(grant) = lacks(import.name, grants)
                {
                    self.missing.add(format!("{module}.{name}"), grant);
                }
                if pointer && self.pointer_import.is_none() {
                    self.pointer_import = Some(format!("the import {module}.{name}"));
                }
                Ok(())
            }
        }
    }

    /// Takes one export. What the host calls must be the guest's own: a function of the host that is
    /// passed on runs in no instance, so it would find no memory, and its failure would be nobody's.
    fn export(&mut self, export: Export<'_>) -> Result<(), LoadError> {
        let called = matches!(export.name, "handle" | "alloc" | "_initialize");
        if called && export.kind == ExternalKind::Func && export.index < self.imported_functions {
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

/// The grant that an import of `duebox_v1` needs, if it is not there.
fn lacks(name: &str, grants: &Grants) -> Option<Grant> {
    let (grant, is_there) = match name {
        push::NAME => (Grant::Push, grants.push.is_some()),
        _ if name.starts_with(http::PREFIX) => (Grant::Http, grants.http.is_some()),
        _ if name.starts_with(kv::PREFIX) => (Grant::Kv, grants.kv),
        _ => return None,
    };
    (!is_there).then_some(grant)
}

/// Whether an import takes a pointer; `None` if there is no such import.
fn takes_pointer(module: &str, name: &str) -> Option<bool> {
    let listed = |imports: &[(&str, bool)]| {
        imports.iter().find(|(known, _)| *known == name).map(|(_, pointer)| *pointer)
    };
    match module {
        abi::NAMESPACE => listed(&abi::IMPORTS)
            .or_else(|| listed(&http::IMPORTS))
            .or_else(|| listed(&kv::IMPORTS)),
        assemblyscript::NAMESPACE => listed(&assemblyscript::IMPORTS),
        wasi::NAMESPACE => Some(name != "proc_exit"),
        _ => None,
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
        return Err(LoadError::Memories(memories.len()));
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
