//! A program as `sdk/python/engine` reads it: `src/program.rs` there describes the format.

use std::collections::BTreeMap;

use super::super::sources::add_field;

/// The modules of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// The name of the handler's own module.
    pub(super) entry: String,
    /// Modules by name.
    pub(super) modules: BTreeMap<String, Module>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Module {
    /// The name of its file in traces.
    pub(super) file: String,
    pub(super) is_package: bool,
    pub(super) source: String,
}

impl Program {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut field = |text: &str| add_field(&mut bytes, text);
        field(&self.entry);
        for (name, module) in &self.modules {
            field(name);
            field(&module.file);
            field(if module.is_package { "package" } else { "module" });
            field(&module.source);
        }
        bytes
    }
}
