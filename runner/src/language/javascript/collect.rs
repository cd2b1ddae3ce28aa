//! Reads a handler and, from import to import, all files that belong to it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::super::error::SourceError;
use super::super::position::Position;
use super::super::sources::{IMPORT_MAX, Sources};
use super::blank;
use super::program::{Kind, Program, SourceFile};
use super::reader::{Language, Reader};
use super::resolve::{Folder, Resolved, Wanted};

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
            let module = match language(&name) {
                Some(language) => self.parse(&name, &path, &source, language)?,
                None => json(&name, &source)?,
            };
            self.program.modules.insert(name, module);
        }
        Ok(())
    }

    /// The module as JavaScript. Its imports are found too.
    fn parse(
        &mut self,
        name: &str,
        path: &Path,
        source: &str,
        language: Language,
    ) -> Result<SourceFile, SourceError> {
        let parsed = self.reader.read(source, language);
        let report =
            parsed.map_err(|reason| SourceError::Parser { file: name.to_owned(), reason })?;
        let refused = |offset, message: String| {
            let at = Position::of(name, source, offset);
            SourceError::Syntax { at, message }
        };
        if let Some((offset, message)) = report.error {
            return Err(refused(offset, message));
        }
        for (offset, specifier) in report.imports {
            if specifier.len() > IMPORT_MAX {
                let message = format!("an import has more than {IMPORT_MAX} bytes; shorten it");
                return Err(refused(offset, message));
            }
            match self.folder.resolve(path, &specifier, Wanted::Import, &mut self.sources.files) {
                Ok(Resolved::Sdk) => {}
                Ok(Resolved::File(file)) => self.link(name, specifier, file),
                Err(reason) => {
                    return Err(refused(offset, format!("cannot import {specifier:?}: {reason}")));
                }
            }
        }
        let requires = report.requires.into_iter().filter(|text| text.len() <= IMPORT_MAX);
        for specifier in requires {
            let found =
                self.folder.resolve(path, &specifier, Wanted::Require, &mut self.sources.files);
            // A package may do without what is not there: `require` throws if it is called.
            if let Ok(Resolved::File(file)) = found {
                self.link(name, specifier, file);
            }
        }
        let may_be_common_js = matches!(language, Language::CommonJs | Language::OfPackage);
        let is_common_js = report.is_script && may_be_common_js;
        let kind = if is_common_js { Kind::CommonJs } else { Kind::Module };
        Ok(SourceFile { kind, source: blank::apply(source, &report.blanks) })
    }

    fn link(&mut self, name: &str, specifier: String, file: PathBuf) {
        let target = self.folder.name_of(&file);
        self.program.links.insert((name.to_owned(), specifier), target.clone());
        self.found.push_back((target, file));
    }
}

/// What a file is written in; `None` for JSON.
fn language(name: &str) -> Option<Language> {
    match Path::new(name).extension().and_then(|extension| extension.to_str()) {
        Some("json") => None,
        Some("ts" | "mts") => Some(Language::TypeScript),
        Some("cjs") => Some(Language::CommonJs),
        Some("js") if name.contains("node_modules/") => Some(Language::OfPackage),
        _ => Some(Language::JavaScript),
    }
}

/// A JSON file as a module.
fn json(name: &str, source: &str) -> Result<SourceFile, SourceError> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(source) {
        let line_start = source.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = line_start.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let at = Position::of(name, source, offset);
        return Err(SourceError::Syntax { at, message: format!("not valid JSON: {error}") });
    }
    let literal = serde_json::Value::String(source.to_owned());
    let source = format!("module.exports=JSON.parse({literal})");
    Ok(SourceFile { kind: Kind::Json, source })
}
