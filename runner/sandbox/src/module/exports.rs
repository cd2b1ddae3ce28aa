//! The exports of a module that the host uses, with their signatures checked.

use wasmtime::{ExternType, Module, ModuleExport};

use super::error::LoadError;
use crate::instance::template::{EntryPoint, ModuleExports};

/// Finds the exports, or refuses the module.
pub(crate) fn find(module: &Module) -> Result<ModuleExports, LoadError> {
    let initialize = match module.get_export("_initialize") {
        None => None,
        Some(_) => Some(function(module, "_initialize", &[(0, 0)], "()")?.export),
    };
    Ok(ModuleExports { entry: entry(module)?, initialize, memory: memory(module) })
}

/// The export `memory`, if it is a memory.
pub(super) fn memory(module: &Module) -> Option<ModuleExport> {
    match module.get_export("memory") {
        Some(ExternType::Memory(_)) => module.get_export_index("memory"),
        _ => None,
    }
}

fn entry(module: &Module) -> Result<EntryPoint, LoadError> {
    const WANTED: &str = "(i32) -> i32 or (i32, i32) -> i32";
    let handle = function(module, "handle", &[(1, 1), (2, 1)], WANTED)?;
    if handle.parameters == 1 {
        return Ok(EntryPoint::Pull { handle: handle.export });
    }
    if module.get_export("alloc").is_none() {
        return Err(LoadError::NoAlloc);
    }
    let alloc = function(module, "alloc", &[(1, 1)], "(i32) -> i32")?;
    match memory(module) {
        Some(_) => Ok(EntryPoint::Push { handle: handle.export, alloc: alloc.export }),
        None => Err(LoadError::NoMemory { needs: "handle(ptr, len)".to_owned() }),
    }
}

/// An exported function.
struct Function {
    export: ModuleExport,
    /// How many parameters it has.
    parameters: usize,
}

/// An exported function with i32 parameters and results only. `shapes` lists the allowed numbers of
/// parameters and results.
fn function(
    module: &Module,
    name: &'static str,
    shapes: &[(usize, usize)],
    wanted: &'static str,
) -> Result<Function, LoadError> {
    let (ty, export) = match (module.get_export(name), module.get_export_index(name)) {
        (Some(ExternType::Func(ty)), Some(export)) => (ty, export),
        _ => return Err(LoadError::ExportType { name, found: "no function".to_owned(), wanted }),
    };
    let all_i32 = ty.params().chain(ty.results()).all(|value| value.is_i32());
    let (parameters, results) = (ty.params().len(), ty.results().len());
    if !all_i32 || !shapes.contains(&(parameters, results)) {
        let list = |types: Vec<String>| types.join(", ");
        let parameters = list(ty.params().map(|value| value.to_string()).collect());
        let results = list(ty.results().map(|value| value.to_string()).collect());
        let found = format!("({parameters}) -> ({results})");
        return Err(LoadError::ExportType { name, found, wanted });
    }
    Ok(Function { export, parameters })
}
