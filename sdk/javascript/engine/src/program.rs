//! The program that the daemon writes into the engine: the modules, and which import of which module means which.
//!
//! It is a sequence of fields, each a 32-bit little-endian length and that many bytes: the name of the first
//! module; the number of modules in decimal, and the name, kind (`module`, `commonjs` or `json`) and source of each;
//! then the importing module, the text of the import and the name of the module it means, for each import. The source
//! of a JSON file is a CommonJS module too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::Declared;
use rquickjs::{Ctx, Error, Module, Result};

use crate::commonjs::CommonJs;

/// The module of the SDK.
pub(crate) const SDK: &str = "duebox";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Module,
    CommonJs,
    Json,
}

/// What is read of a program while it runs. The text of a source is taken when it is compiled.
pub(crate) struct Files {
    pub(crate) sources: RefCell<BTreeMap<String, (Kind, String)>>,
    /// Names of modules by the importing module and the text of the import.
    pub(crate) links: BTreeMap<(String, String), String>,
}

impl Files {
    fn take(&self, name: &str) -> String {
        let mut sources = self.sources.borrow_mut();
        sources.get_mut(name).map(|(_, source)| std::mem::take(source)).unwrap_or_default()
    }
}

pub(crate) struct Program {
    pub(crate) entry: String,
    files: Rc<Files>,
}

impl Program {
    /// `None` if the bytes are not a program.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let entry = fields.next()?;
        let count: usize = fields.next()?.parse().ok()?;
        let mut sources = BTreeMap::new();
        for _ in 0..count {
            let (name, kind) = (fields.next()?, fields.next()?);
            let kind = match kind.as_str() {
                "module" => Kind::Module,
                "commonjs" => Kind::CommonJs,
                "json" => Kind::Json,
                _ => return None,
            };
            sources.insert(name, (kind, fields.next()?));
        }
        let mut links = BTreeMap::new();
        while let Some(from) = fields.next() {
            links.insert((from, fields.next()?), fields.next()?);
        }
        let files = Rc::new(Files { sources: RefCell::new(sources), links });
        Some(Self { entry, files })
    }

    pub(crate) fn loaders(&self) -> (Links, Sources) {
        let common_js = CommonJs::new(Rc::clone(&self.files));
        (Links(Rc::clone(&self.files)), Sources { files: Rc::clone(&self.files), common_js })
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
pub(crate) struct Links(Rc<Files>);

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
        Ok(self.0.links.get(&key).unwrap_or(&key.1).clone())
    }
}

/// The modules that are imported.
pub(crate) struct Sources {
    files: Rc<Files>,
    common_js: CommonJs,
}

impl Loader for Sources {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _attributes: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        let kind = self.files.sources.borrow().get(name).map(|(kind, _)| *kind);
        match kind {
            Some(Kind::Module) => {
                let source = self.files.take(name);
                Module::declare(ctx.clone(), name, source)
            }
            Some(Kind::CommonJs) => self.common_js.import(ctx, name, true),
            Some(Kind::Json) => self.common_js.import(ctx, name, false),
            None => {
                let unknown = "it was not found when the handler was loaded; import() takes a text, not a computed name";
                Err(Error::new_loading_message(name, unknown))
            }
        }
    }
}
