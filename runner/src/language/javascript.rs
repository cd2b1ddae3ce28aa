//! JavaScript and TypeScript: which files a handler imports, and its program for `sdk/javascript/engine`.

mod blank;
mod collect;
mod embedded;
mod package;
mod program;
mod reader;
mod resolve;

use std::path::Path;

use bytes::Bytes;
use duebox_sandbox::{Digest, Sandbox};

use super::error::SourceError;
use super::sources::Sources;
use super::{EncodedProgram, Interpreter};

/// Reads a handler and what it imports.
pub(super) fn read(
    sandbox: &Sandbox,
    handler: &Path,
    sources: &mut Sources,
) -> Result<EncodedProgram, SourceError> {
    refuse_kind(handler)?;
    let Some((engine, reader)) = embedded::ENGINE.zip(embedded::READER) else {
        return Err(SourceError::NotBuiltIn);
    };
    let reader = reader::Reader::start(sandbox, reader)?;
    let bytes = collect::collect(&reader, handler, sources)?.encode();
    let interpreter =
        Interpreter { digest: Digest::of(engine), module: Bytes::from_static(engine) };
    Ok(EncodedProgram { bytes, interpreter })
}

/// Refuses a file whose name says that it is no ES module, or has a syntax that the engine lacks.
fn refuse_kind(handler: &Path) -> Result<(), SourceError> {
    let (kind, instead) = match handler.extension().and_then(|extension| extension.to_str()) {
        Some("tsx" | "jsx") => ("JSX", "write its elements as calls, in a .ts or .js file"),
        Some("cjs" | "cts") => ("CommonJS", "write import and export, in a .ts or .mjs file"),
        _ => return Ok(()),
    };
    Err(SourceError::Kind { kind, instead })
}
