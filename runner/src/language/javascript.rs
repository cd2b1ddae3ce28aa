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
    let Some((engine, reader)) = embedded::ENGINE.zip(embedded::READER) else {
        return Err(SourceError::NotBuiltIn);
    };
    let reader = reader::Reader::start(sandbox, reader)?;
    let bytes = collect::collect(&reader, handler, sources)?.encode();
    let interpreter =
        Interpreter { digest: Digest::of(engine), module: Bytes::from_static(engine) };
    Ok(EncodedProgram { bytes, interpreter })
}
