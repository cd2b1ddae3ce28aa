//! Handlers that are bound as source: `handler = "close.ts"`.
//!
//! The files that a handler imports are read and joined to a program, which an interpreter in the sandbox runs.
//! Files are parsed in the sandbox too: a parser of sources does not run in this process.

mod error;
mod javascript;
mod parser;
mod position;
mod python;
mod sources;
mod watched;

use std::path::Path;

use bytes::Bytes;
use duebox_sandbox::{Digest, Grants, Handler, Limits, LoadError, Sandbox, Script, SnapshotSeed};

pub use self::error::SourceError;
pub use self::python::{import_python_from, look_for_engine_in};
use self::sources::Sources;
pub(crate) use self::watched::{files, has_changed};

/// The languages of source handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// JavaScript and TypeScript.
    JavaScript,
    /// Python.
    Python,
}

impl Language {
    /// The language of a handler's file; `None` for a module.
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "js" | "mjs" | "ts" | "mts" => Some(Self::JavaScript),
            // They are refused as sources, which says more than that they are not modules.
            "tsx" | "jsx" | "cjs" | "cts" => Some(Self::JavaScript),
            "py" => Some(Self::Python),
            _ => None,
        }
    }
}

/// The module that runs the programs of a language.
struct Interpreter {
    module: Bytes,
    digest: Digest,
}

/// A program in the form that its interpreter expects.
struct EncodedProgram {
    bytes: Vec<u8>,
    interpreter: Interpreter,
}

/// A source handler with everything that it imports.
pub struct SourceHandler {
    program: EncodedProgram,
    digest: Digest,
}

impl SourceHandler {
    /// Reads a handler and what it imports. It blocks, and must not be called on a runtime's thread.
    ///
    /// # Errors
    /// [`SourceError`] with the place in the source.
    pub fn read(sandbox: &Sandbox, file: &Path, limits: &Limits) -> Result<Self, SourceError> {
        // Folders above the file are looked at too.
        let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let mut sources = Sources::new(limits.module);
        let program = match Language::of(file) {
            Some(Language::Python) => python::read(sandbox, &path, &mut sources),
            Some(Language::JavaScript) | None => javascript::read(sandbox, &path, &mut sources),
        };
        watched::remember(file, sources.files);
        let program = program?;
        let interpreter = program.interpreter.digest.to_string();
        let digest = Digest::of(&[interpreter.as_bytes(), &program.bytes].concat());
        Ok(Self { program, digest })
    }

    /// The digest of the program: of all its files, and of the interpreter.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Evaluates the program, with random bytes of its own.
    ///
    /// # Errors
    /// [`LoadError`] if its top level fails.
    pub fn load(
        &self,
        sandbox: &Sandbox,
        limits: Limits,
        grants: Grants,
    ) -> Result<Handler, LoadError> {
        self.load_with_seed(sandbox, limits, grants, None)
    }

    /// Evaluates the program, with the random bytes of a seed if one is given.
    ///
    /// # Errors
    /// [`LoadError`] if its top level fails.
    pub fn load_with_seed(
        &self,
        sandbox: &Sandbox,
        limits: Limits,
        grants: Grants,
        seed: Option<SnapshotSeed>,
    ) -> Result<Handler, LoadError> {
        let script = Script { seed, ..self.program.script(self.digest) };
        sandbox.load_script(&script, limits, grants)
    }
}

impl EncodedProgram {
    fn script(&self, digest: Digest) -> Script<'_> {
        let Interpreter { module, digest: interpreter_digest } = &self.interpreter;
        let (interpreter, program) = (&module[..], &self.bytes[..]);
        let interpreter_digest = *interpreter_digest;
        Script { interpreter, interpreter_digest, program, digest, seed: None }
    }
}
