//! Reads a handler and, from import to import, all files that belong to it.
//!
//! An import without a file may mean the standard library, or be one that the handler does without. It is not
//! refused here: the program fails when it is evaluated, or where it imports.

use std::collections::VecDeque;
use std::path::Path;

use super::super::error::SourceError;
use super::super::position::Position;
use super::super::sources::{IMPORT_MAX, Sources};
use super::packages;
use super::program::{Module, Program};
use super::reader::{Import, Reader};
use super::resolve::{Folder, Found};

/// The program of a handler.
pub(super) fn collect(
    reader: &Reader,
    handler: &Path,
    sources: &mut Sources,
) -> Result<Program, SourceError> {
    let folder = Folder::of(handler, packages::folder(sources)?);
    let program = Program::default();
    let mut collector = Collector { reader, folder, program, sources, found: VecDeque::new() };
    collector.run(handler)?;
    Ok(collector.program)
}

struct Collector<'a> {
    reader: &'a Reader,
    folder: Folder,
    program: Program,
    sources: &'a mut Sources,
    /// Names of modules to look for.
    found: VecDeque<String>,
}

impl Collector<'_> {
    fn run(&mut self, handler: &Path) -> Result<(), SourceError> {
        let entry = handler.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.program.entry = entry.clone();
        self.add(entry, Found::Module(handler.to_owned()))?;
        while let Some(name) = self.found.pop_front() {
            if self.program.modules.contains_key(&name) {
                continue;
            }
            if let Some(found) = self.folder.find(&name, self.sources) {
                self.add(name, found)?;
            }
        }
        Ok(())
    }

    /// Adds a module to the program, and what it imports to what is looked for.
    fn add(&mut self, name: String, found: Found) -> Result<(), SourceError> {
        let (path, is_package) = match found {
            Found::Module(path) => (path, false),
            Found::Package(path) => (path, true),
            Found::Namespace(path) => {
                let file = self.folder.name_of(&path);
                let module = Module { file, is_package: true, source: String::new() };
                self.program.modules.insert(name, module);
                return Ok(());
            }
            Found::Compiled(path) => {
                let file = self.folder.name_of(&path);
                let module = Module { source: refusal(&name, &file), file, is_package: false };
                self.program.modules.insert(name, module);
                return Ok(());
            }
        };
        let file = self.folder.name_of(&path);
        let source = self.sources.read(&path)?;
        let report = self.reader.read(&source);
        let report = report.map_err(|reason| SourceError::Parser { file: file.clone(), reason })?;
        if let Some((offset, message)) = report.error {
            return Err(SourceError::Syntax { at: Position::of(&file, &source, offset), message });
        }
        let package = if is_package { Some(name.as_str()) } else { parent(&name) };
        for import in &report.imports {
            self.found.extend(modules(import, package));
        }
        self.program.modules.insert(name, Module { file, is_package, source });
        Ok(())
    }
}

/// In place of a compiled module: a package may do without it, as it does where none was built.
fn refusal(name: &str, file: &str) -> String {
    let text = format!(
        "{name} is a compiled module ({file}), which a Duebox handler cannot load; take a package in pure Python"
    );
    // A text in JSON is one in Python.
    let text = serde_json::Value::String(text);
    format!("raise ImportError({text})\n")
}

/// The package that contains a module.
fn parent(module: &str) -> Option<&str> {
    module.rsplit_once('.').map(|(package, _)| package)
}

/// How many packages may be within each other.
const DEPTH_MAX: usize = 50;

/// The modules that an import may load: the packages on the way, the module, and what it is asked for. One that no
/// file can have as its name fails when it is evaluated.
fn modules(import: &Import, package: Option<&str>) -> Vec<String> {
    let mut base = package.filter(|_| import.level > 0);
    for _ in 1..import.level {
        base = base.and_then(parent);
    }
    if import.level > 0 && base.is_none() {
        // There is no such package, which fails when it is evaluated.
        return Vec::new();
    }
    let parts = [base.unwrap_or_default(), import.module.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let module = parts.join(".");
    if module.len() > IMPORT_MAX || module.matches('.').count() >= DEPTH_MAX {
        return Vec::new();
    }
    let dots = module.match_indices('.').map(|(at, _)| module[..at].to_owned());
    let mut all: Vec<String> = dots.collect();
    all.extend(import.names.iter().map(|name| format!("{module}.{name}")));
    all.push(module);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(level: usize, module: &str, names: &[&str], package: Option<&str>) -> Vec<String> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let mut all = modules(&Import { level, module: module.to_owned(), names }, package);
        all.sort();
        all
    }

    #[test]
    fn an_import_means_the_packages_on_the_way_too() {
        assert_eq!(of(0, "a.b.c", &[], None), ["a", "a.b", "a.b.c"]);
        assert_eq!(of(0, "a", &["b"], None), ["a", "a.b"]);
        assert_eq!(of(1, "", &["b"], Some("p.q")), ["p", "p.q", "p.q.b"]);
        assert_eq!(of(2, "m", &["b"], Some("p.q")), ["p", "p.m", "p.m.b"]);
        assert_eq!(of(3, "m", &[], Some("p.q")), [""; 0]);
        assert_eq!(of(1, "m", &[], None), [""; 0]);
        let deep = vec!["a"; DEPTH_MAX].join(".");
        assert_eq!(of(0, &deep, &[], None).len(), DEPTH_MAX);
        assert_eq!(of(0, &format!("{deep}.a"), &[], None), [""; 0]);
        assert_eq!(of(0, &"a".repeat(IMPORT_MAX + 1), &[], None), [""; 0]);
    }
}
