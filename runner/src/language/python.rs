//! Python: which files a handler imports, and its program for `sdk/python/engine`.

mod collect;
mod engine;
mod packages;
mod program;
mod reader;
mod resolve;

use std::path::Path;

use duebox_sandbox::Sandbox;

pub use self::engine::look_for_engine_in;
pub use self::packages::import_python_from;
use super::EncodedProgram;
use super::error::SourceError;
use super::sources::Sources;

/// Reads a handler and what it imports.
pub(super) fn read(
    sandbox: &Sandbox,
    handler: &Path,
    sources: &mut Sources,
) -> Result<EncodedProgram, SourceError> {
    let interpreter = engine::read(sources)?;
    let reader = reader::Reader::start(sandbox, &interpreter)?;
    let bytes = collect::collect(&reader, handler, sources)?.encode();
    Ok(EncodedProgram { bytes, interpreter })
}
