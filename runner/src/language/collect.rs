//! Reads a handler and, from import to import, all files that belong to it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::blank;
use super::error::SourceError;
use super::position::Position;
use super::program::Program;
use super::reader::Reader;
use super::resolve::{Folder, Resolved};
use super::watched::Files;
use crate::regular_file::{self, fingerprint};

/// How many files a handler may have.
const FILES_MAX: usize = 2_000;

/// The program of a handler. The files are those that it was, or would have been, read from.
pub(super) fn collect(
    reader: &Reader,
    handler: &Path,
    bytes_max: usize,
) -> (Result<Program, SourceError>, Files) {
    let mut collector = Collector {
        reader,
        folder: Folder::of(handler),
        program: Program::default(),
        files: Files::new(),
        bytes_max,
        bytes_left: bytes_max,
        found: VecDeque::new(),
    };
    let program = collector.run(handler);
    let Collector { program: collected, files, .. } = collector;
    (program.map(|()| collected), files)
}

struct Collector<'a> {
    reader: &'a Reader,
    folder: Folder,
    program: Program,
    files: Files,
    bytes_max: usize,
    bytes_left: usize,
    /// Files to read, with their names.
    found: VecDeque<(String, PathBuf)>,
}

impl Collector<'_> {
    fn run(&mut self, handler: &Path) -> Result<(), SourceError> {
        self.program.entry = self.folder.name_of(handler);
        self.found.push_back((self.program.entry.clone(), handler.to_owned()));
        while let Some((name, path)) = self.found.pop_front() {
            if self.program.modules.contains_key(&name) {
                continue;
            }
            if self.program.modules.len() == FILES_MAX {
                return Err(SourceError::TooMany { max: FILES_MAX });
            }
            let source = self.read(&path)?;
            let module = match path.extension().is_some_and(|extension| extension == "json") {
                true => json(&name, &source)?,
                false => self.parse(&name, &path, &source)?,
            };
            self.program.modules.insert(name, module);
        }
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<String, SourceError> {
        // Before it is read, so that a later change is noticed.
        self.files.insert(path.to_owned(), fingerprint(path));
        let failed = |error| SourceError::Unreadable { path: path.to_owned(), error };
        let bytes = regular_file::read(path, self.bytes_left as u64 + 1).map_err(failed)?;
        let Some(left) = self.bytes_left.checked_sub(bytes.len()) else {
            return Err(SourceError::TooLarge { max: self.bytes_max });
        };
        self.bytes_left = left;
        let not_text = |error| failed(std::io::Error::new(std::io::ErrorKind::InvalidData, error));
        String::from_utf8(bytes).map_err(not_text)
    }

    /// The module as JavaScript. Its imports are found too.
    fn parse(&mut self, name: &str, path: &Path, source: &str) -> Result<String, SourceError> {
        let is_typescript = path.extension().is_some_and(|it| it == "ts" || it == "mts");
        let parsed = self.reader.read(source, is_typescript);
        let report =
            parsed.map_err(|reason| SourceError::Parser { file: name.to_owned(), reason })?;
        let refused = |offset, message: String| {
            let at = Position::of(name, source, offset);
            SourceError::Syntax { at, message }
        };
        if let Some((offset, message)) = report.error {
            return Err(refused(offset, message));
        }
        if report.is_script && name.contains("node_modules/") {
            let message = "the file is a CommonJS module, which a handler cannot import; import the package's ES module, or bundle it into one file";
            return Err(refused(0, message.to_owned()));
        }
        for (offset, specifier) in report.imports {
            match self.folder.resolve(path, &specifier, &mut self.files) {
                Ok(Resolved::Sdk) => {}
                Ok(Resolved::File(file)) => {
                    let target = self.folder.name_of(&file);
                    let link = (name.to_owned(), specifier);
                    self.program.links.insert(link, target.clone());
                    self.found.push_back((target, file));
                }
                Err(reason) => {
                    return Err(refused(offset, format!("cannot import {specifier:?}: {reason}")));
                }
            }
        }
        Ok(blank::apply(source, &report.blanks))
    }
}

/// A JSON file as a module.
fn json(name: &str, source: &str) -> Result<String, SourceError> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(source) {
        let line_start = source.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = line_start.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let at = Position::of(name, source, offset);
        return Err(SourceError::Syntax { at, message: format!("not valid JSON: {error}") });
    }
    let literal = serde_json::Value::String(source.to_owned());
    Ok(format!("export default JSON.parse({literal});"))
}
