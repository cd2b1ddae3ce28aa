//! A handler's project: its language, and the tools that build it. `new`, `build` and `inspect` share this.

pub(crate) mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// Where `duebox build` puts the module of a project that is compiled, from the project's folder.
pub(crate) const MODULE: &str = "build/handler.wasm";
/// Rust's target.
pub(crate) const RUST_TARGET: &str = "wasm32-unknown-unknown";

/// A language in which a handler is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HandlerLanguage {
    /// TypeScript or JavaScript, served as source
    #[value(name = "typescript", alias = "ts", alias = "javascript", alias = "js")]
    TypeScript,
    /// Python, served as source
    #[value(alias = "py")]
    Python,
    /// Rust, compiled by cargo
    #[value(alias = "rs")]
    Rust,
    /// Go 1.24 or newer
    #[value(alias = "golang")]
    Go,
    /// AssemblyScript, compiled by its package from npm
    #[value(name = "assemblyscript", alias = "as")]
    AssemblyScript,
    /// C, compiled by clang
    C,
    /// The text form of WebAssembly, served as source
    Wat,
}

/// What a project serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectKind {
    /// A file that needs no build, from the project's folder.
    Served(PathBuf),
    /// What a compiler turns into a module.
    Compiled,
}

impl HandlerLanguage {
    /// The name as people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::AssemblyScript => "AssemblyScript",
            Self::C => "C",
            Self::Wat => "WebAssembly text",
        }
    }

    /// Where its packages are published, if it has such a place.
    pub(crate) fn registry(self) -> Option<&'static str> {
        match self {
            Self::TypeScript | Self::AssemblyScript => Some("npm"),
            Self::Python => Some("PyPI"),
            Self::Rust => Some("crates.io"),
            Self::Go => Some("the Go module proxy"),
            Self::C | Self::Wat => None,
        }
    }

    /// Whether handlers in it are compiled to a module.
    pub(crate) fn is_compiled(self) -> bool {
        matches!(self, Self::Rust | Self::Go | Self::AssemblyScript | Self::C)
    }

    /// The language of a project's folder, and what it serves. A file of a build tool decides first, then the
    /// sources in the folder itself: `handler.*`, or else the only one.
    pub(crate) fn of_project(dir: &Path) -> Option<(Self, ProjectKind)> {
        let built = [
            ("Cargo.toml", Self::Rust),
            ("go.mod", Self::Go),
            ("asconfig.json", Self::AssemblyScript),
        ];
        if let Some((_, language)) = built.iter().find(|(file, _)| dir.join(file).is_file()) {
            return Some((*language, ProjectKind::Compiled));
        }
        let sources = sources(dir);
        let is_handler = |file: &&PathBuf| file.file_stem().is_some_and(|stem| stem == "handler");
        let by_name = sources.iter().find(is_handler);
        let file = by_name.or(match &sources[..] {
            [only] => Some(only),
            // All files of C are compiled together.
            [first, ..] if sources.iter().all(|file| Self::of_source(file) == Some(Self::C)) => {
                Some(first)
            }
            _ => None,
        })?;
        let language = Self::of_source(file)?;
        let source = if language.is_compiled() {
            ProjectKind::Compiled
        } else {
            ProjectKind::Served(file.clone())
        };
        Some((language, source))
    }

    /// The language of a source file by its ending.
    fn of_source(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()? {
            "ts" | "mts" | "js" | "mjs" => Some(Self::TypeScript),
            "py" => Some(Self::Python),
            "c" => Some(Self::C),
            "wat" => Some(Self::Wat),
            _ => None,
        }
    }
}

/// The sources of a folder by name, without those below it.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| PathBuf::from(entry.file_name()));
    let is_declaration = |file: &Path| file.to_string_lossy().ends_with(".d.ts");
    let is_source =
        |file: &PathBuf| HandlerLanguage::of_source(file).is_some() && !is_declaration(file);
    let mut sources: Vec<PathBuf> = names.filter(is_source).collect();
    sources.sort();
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[&str]) -> Option<(HandlerLanguage, ProjectKind)> {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|file| fs::write(dir.path().join(file), "").unwrap());
        HandlerLanguage::of_project(dir.path())
    }

    #[test]
    fn the_files_of_a_project_name_its_language() {
        use HandlerLanguage::{AssemblyScript, C, Go, Python, Rust, TypeScript, Wat};
        let served = |file: &str| ProjectKind::Served(PathBuf::from(file));
        assert_eq!(of(&["Cargo.toml", "build.js"]), Some((Rust, ProjectKind::Compiled)));
        assert_eq!(of(&["go.mod", "main.go"]), Some((Go, ProjectKind::Compiled)));
        assert_eq!(
            of(&["asconfig.json", "package.json"]),
            Some((AssemblyScript, ProjectKind::Compiled))
        );
        assert_eq!(of(&["a.c", "b.c", "c.h"]), Some((C, ProjectKind::Compiled)));
        assert_eq!(
            of(&["handler.ts", "lib.ts", "types.d.ts"]),
            Some((TypeScript, served("handler.ts")))
        );
        assert_eq!(of(&["close.py"]), Some((Python, served("close.py"))));
        assert_eq!(of(&["close.wat"]), Some((Wat, served("close.wat"))));
        assert_eq!(of(&["a.py", "b.py"]), None);
        assert_eq!(of(&["README.md"]), None);
    }
}
