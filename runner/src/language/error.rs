//! Why a source handler is refused.

use std::io;
use std::path::PathBuf;

use super::position::Position;

/// Why a source handler is refused.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// This program does not contain the interpreter.
    #[error(
        "this duebox was built without the JavaScript engine; run sdk/javascript/build.sh and build it again, or take a released binary"
    )]
    NotBuiltIn,
    /// The engine of Python is not installed.
    #[error(
        "the Python engine is missing: there is no {}; the images `duebox:VERSION-python` and `-all-in-one`, the release archive, the Debian package, the wheel and the npm package have it, `./dev python` builds it, and `runner.languages` names its folder",
        list(looked_at)
    )]
    NoEngine {
        /// Where it was looked for.
        looked_at: Vec<PathBuf>,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The files are too large together.
    #[error(
        "it and its imports have more than {max} bytes; import less, or raise `module` of the topic's sandbox"
    )]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// It imports too many files.
    #[error("it imports more than {max} files; bundle them into one")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// Its imports may mean too many files.
    #[error("its imports may mean more than {max} files; import fewer names")]
    TooManyImports {
        /// The limit.
        max: usize,
    },
    /// A file is not in its language, or uses what is not supported.
    #[error("{at}: {message}\n{}", at.shown())]
    Syntax {
        /// Where.
        at: Position,
        /// What is wrong there, and the remedy.
        message: String,
    },
    /// A file of this kind cannot be a handler.
    #[error("a handler cannot be a file with {kind}; {instead}")]
    Kind {
        /// What its name says it has.
        kind: &'static str,
        /// The remedy.
        instead: &'static str,
    },
    /// A file cannot be parsed in the sandbox.
    #[error("{file} cannot be parsed: {reason}; split it into smaller files")]
    Parser {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The parser does not start.
    #[error("the parser does not start: {0}")]
    Start(String),
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(" and no ")
}
