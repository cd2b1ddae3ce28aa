//! The program that the daemon writes into the engine: the modules, and which import of which module means which.
//!
//! It is a sequence of fields, each a 32-bit little-endian length and that many bytes: the name of the first
//! module; the number of modules in decimal, and the name and source of each; then the importing module, the text
//! of the import and the name of the module it means, for each import.

use std::collections::BTreeMap;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};

/// The module of the SDK.
pub(crate) const SDK: &str = "duebox";

pub(crate) struct Program {
    pub(crate) entry: String,
    modules: BTreeMap<String, String>,
    links: BTreeMap<(String, String), String>,
}

impl Program {
    /// `None` if the bytes are not a program.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let entry = fields.next()?;
        let count: usize = fields.next()?.parse().ok()?;
        let mut modules = BTreeMap::new();
        for _ in 0..count {
            modules.insert(fields.next()?, fields.next()?);
        }
        let mut links = BTreeMap::new();
        while let Some(from) = fields.next() {
            links.insert((from, fields.next()?), fields.next()?);
        }
        Some(Self { entry, modules, links })
    }

    pub(crate) fn loaders(self) -> (Links, Sources) {
        (Links(self.links), Sources(self.modules))
    }
}

struct Fields<'a>(&'a [u8]);

impl Iterator for Fields<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

/// Finds the module that an import means.
pub(crate) struct Links(BTreeMap<(String, String), String>);

impl Resolver for Links {
    fn resolve<'js>(
        &mut self,
        _ctx: &Ctx<'js>,
        base: &str,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        // The entry and the SDK are named by themselves, and so is an import that was not found: it fails to load.
        let key = (base.to_owned(), name.to_owned());
        Ok(self.0.get(&key).unwrap_or(&key.1).clone())
    }
}

/// The sources of the modules, each until it is loaded.
pub(crate) struct Sources(BTreeMap<String, String>);

impl Loader for Sources {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let unknown = "it was not found when the handler was loaded; import() takes a text, not a computed name";
        let source =
            self.0.remove(name).ok_or_else(|| Error::new_loading_message(name, unknown))?;
        Module::declare(ctx.clone(), name, source)
    }
}
