//! Handlers that are bound as source: `handler = "close.ts"`.
//!
//! The files that a handler imports are read and joined to a program, which an interpreter in the sandbox runs.
//! Files are parsed in the sandbox too: a parser of sources does not run in this process.

mod blank;
mod collect;
mod embedded;
mod error;
mod package;
mod position;
mod program;
mod reader;
mod resolve;
mod watched;

use std::path::Path;

use duebox_sandbox::{Digest, Grants, Handler, Limits, LoadError, Sandbox, Script};

pub use self::error::SourceError;
pub(crate) use self::watched::{files, has_changed};

/// The languages of source handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// JavaScript and TypeScript.
    JavaScript,
}

impl Language {
    /// The language of a handler's file; `None` for a module.
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "js" | "mjs" | "ts" | "mts" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

/// A source handler with everything that it imports.
pub struct SourceHandler {
    program: Vec<u8>,
    digest: Digest,
    interpreter: &'static [u8],
}

impl SourceHandler {
    /// Reads a handler and what it imports. It blocks, and must not be called on a runtime's thread.
    ///
    /// # Errors
    /// [`SourceError`] with the place in the source.
    pub fn read(sandbox: &Sandbox, file: &Path, limits: &Limits) -> Result<Self, SourceError> {
        let Some((interpreter, reader)) = embedded::ENGINE.zip(embedded::READER) else {
            return Err(SourceError::NotBuiltIn);
        };
        let reader = reader::Reader::start(sandbox, reader)?;
        // Folders above the file are looked at too.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let (program, files) = collect::collect(&reader, &path, limits.module);
        watched::remember(file, files);
        let program = program?.encode();
        let digest =
            Digest::of(&[Digest::of(interpreter).to_string().as_bytes(), &program].concat());
        Ok(Self { program, digest, interpreter })
    }

    /// The digest of the program: of all its files, and of the interpreter.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Evaluates the program.
    ///
    /// # Errors
    /// [`LoadError`] if its top level fails.
    pub fn load(
        &self,
        sandbox: &Sandbox,
        limits: Limits,
        grants: Grants,
    ) -> Result<Handler, LoadError> {
        let Self { program, digest, interpreter } = self;
        sandbox.load_script(&Script { interpreter, program, digest: *digest }, limits, grants)
    }
}
