//! Files next to a handler: `tests/*.toml` with the cases of a topic, and the files of exchanges that
//! `duebox invoke --http` reads.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use super::case::{Case, read_file_cases};
use super::environment::Environment;
use super::exchange::{Exchange, read_exchanges};
use super::file::{folder_of, read_bounded};
use super::keys::{CASE_FILE, EXCHANGE_FILE, Keys};
use super::problem::{self, ManifestError};
use super::reader::ManifestReader;
use super::section::Section;

/// A file of cases.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFile {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The topic that it names.
    pub topic: Option<String>,
    /// Its cases, in their order.
    pub cases: Vec<Case>,
}

impl CaseFile {
    /// Reads a file of cases.
    ///
    /// # Errors
    /// [`ManifestError`] holds every problem of the file, each with its place and remedy.
    pub fn load(path: &Path, environment: &Environment) -> Result<Self, ManifestError> {
        let text = read_bounded(path)?;
        let read = |root: &Section<'_>| Some((root.text("topic"), read_file_cases(root)?));
        let (topic, cases) = read_file(path, &text, environment, &CASE_FILE, read)?;
        Ok(Self { path: path.to_owned(), text, topic, cases })
    }
}

/// Reads a file of exchanges.
///
/// # Errors
/// [`ManifestError`] holds every problem of the file, each with its place and remedy.
pub fn load_exchanges(
    path: &Path,
    environment: &Environment,
) -> Result<Vec<Exchange>, ManifestError> {
    let text = read_bounded(path)?;
    read_file(path, &text, environment, &EXCHANGE_FILE, read_exchanges)
}

fn read_file<T>(
    path: &Path,
    text: &str,
    environment: &Environment,
    keys: &Keys,
    read: impl FnOnce(&Section<'_>) -> Option<T>,
) -> Result<T, ManifestError> {
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    let reader = ManifestReader::new(environment, folder_of(path));
    let content = read(&Section::open(&reader, document.get_ref(), keys));
    let mut problems = reader.into_findings().problems;
    problem::add_syntax_errors(&mut problems, &syntax_errors, text);
    match content {
        Some(content) if problems.is_empty() => Ok(content),
        _ => Err(ManifestError::new(path, text.to_owned(), problems)),
    }
}
