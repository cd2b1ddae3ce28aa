//! A program as `sdk/javascript/engine` reads it: `src/program.rs` there describes the format.

use std::collections::BTreeMap;

use super::super::sources::add_field;

/// The modules of a program, and which import of which module means which.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The name of the handler's own module.
    pub(super) entry: String,
    /// Modules by name.
    pub(super) modules: BTreeMap<String, SourceFile>,
    /// Names of modules by the importing module and the text of the import.
    pub(super) links: BTreeMap<(String, String), String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) kind: Kind,
    pub(super) source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Module,
    CommonJs,
    /// A CommonJS module that exports nothing by name.
    Json,
}

impl Program {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut field = |text: &str| add_field(&mut bytes, text);
        field(&self.entry);
        field(&self.modules.len().to_string());
        for (name, module) in &self.modules {
            field(name);
            field(match module.kind {
                Kind::Module => "module",
                Kind::CommonJs => "commonjs",
                Kind::Json => "json",
            });
            field(&module.source);
        }
        for ((from, specifier), to) in &self.links {
            field(from);
            field(specifier);
            field(to);
        }
        bytes
    }
}
