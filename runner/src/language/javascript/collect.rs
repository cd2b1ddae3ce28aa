//! Reads a handler and, from import to import, all files that belong to it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::super::error::SourceError;
use super::super::position::Position;
use super::super::sources::Sources;
use super::blank;
use super::program::Program;
use super::reader::Reader;
use super::resolve::{Folder, Resolved};

/// The program of a handler.
pub(super) fn collect(
    reader: &Reader,
    handler: &Path,
    sources: &mut Sources,
) -> Result<Program, SourceError> {
    let (folder, program) = (Folder::of(handler), Program::default());
    let mut collector = Collector { reader, folder, program, sources, found: VecDeque::new() };
    collector.run(handler)?;
    Ok(collector.program)
}

struct Collector<'a> {
    reader: &'a Reader,
    folder: Folder,
    program: Program,
    sources: &'a mut Sources,
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
            let source = self.sources.read(&path)?;
            let module = match path.extension().is_some_and(|extension| extension == "json") {
                true => json(&name, &source)?,
                false => self.parse(&name, &path, &source)?,
            };
            self.program.modules.insert(name, module);
        }
        Ok(())
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
            match self.folder.resolve(path, &specifier, &mut self.sources.files) {
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
