//! A crate's modules, read from its files by following `mod` items from `lib.rs` and `main.rs`.
//!
//! Following the items rather than walking the folder leaves out what no build compiles, and what only tests do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemMod, Meta, UseTree};

/// The path of a module from the crate's root; the root itself is empty.
pub type ModulePath = Vec<String>;

/// One file of the crate.
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// The module that the file is.
    pub module: ModulePath,
    /// Its content.
    pub syntax: syn::File,
}

/// The names that a module declares or re-exports.
#[derive(Debug, Default)]
pub struct Names {
    /// Items of the module itself: types, functions, constants, child modules.
    pub declared: BTreeSet<String>,
    /// Names that a `use` brings in, and the path each stands for.
    pub imported: BTreeMap<String, Vec<String>>,
    /// Modules whose names a `use …::*` brings in.
    pub globs: Vec<Vec<String>>,
}

/// All modules of a crate.
#[derive(Default)]
pub struct Tree {
    /// Every file, the roots first.
    pub files: Vec<SourceFile>,
    /// What each module declares, inline modules included.
    pub names: BTreeMap<ModulePath, Names>,
    /// The layer of each macro that `#[macro_export]` puts at the crate's root.
    pub macros: BTreeMap<String, String>,
}

/// Why a crate cannot be read.
#[derive(Debug)]
pub enum TreeError {
    /// The folder has neither `lib.rs` nor `main.rs`.
    NoRoot(PathBuf),
    /// A file cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// A file is not valid Rust.
    Invalid(PathBuf, syn::Error),
    /// No file belongs to a `mod` item. `#[path]` is not supported.
    MissingModule {
        /// The file with the item.
        declared_in: PathBuf,
        /// The module it declares.
        module: String,
    },
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot(src) => {
                write!(f, "{} has neither lib.rs nor main.rs", src.display())
            }
            Self::Unreadable(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Self::Invalid(path, error) => {
                let line = error.span().start().line;
                write!(f, "{}:{line}: cannot parse: {error}", path.display())
            }
            Self::MissingModule { declared_in, module } => {
                write!(f, "{}: no file for `mod {module}`", declared_in.display())
            }
        }
    }
}

impl std::error::Error for TreeError {}

impl Tree {
    /// Reads the crate whose sources are in `src`.
    ///
    /// # Errors
    /// [`TreeError`] if a file is missing, unreadable or not valid Rust.
    pub fn read(src: &Path) -> Result<Self, TreeError> {
        let mut tree = Self::default();
        let roots: Vec<_> = ["lib.rs", "main.rs"]
            .map(|root| src.join(root))
            .into_iter()
            .filter(|p| p.is_file())
            .collect();
        if roots.is_empty() {
            return Err(TreeError::NoRoot(src.to_owned()));
        }
        for root in roots {
            tree.read_file(root, Vec::new(), src)?;
        }
        Ok(tree)
    }

    /// Reads one file and the files of its child modules, which lie in `folder`.
    fn read_file(
        &mut self,
        path: PathBuf,
        module: ModulePath,
        folder: &Path,
    ) -> Result<(), TreeError> {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| TreeError::Unreadable(path.clone(), error))?;
        let syntax =
            syn::parse_file(&text).map_err(|error| TreeError::Invalid(path.clone(), error))?;
        // `#![cfg(test)]` at the head of a file.
        if only_in_tests(&syntax.attrs) {
            return Ok(());
        }
        let mut children = Vec::new();
        self.note_items(&syntax.items, &module, folder, &mut children);
        self.files.push(SourceFile { path: path.clone(), module, syntax });
        for child in children {
            let file = child.find().ok_or_else(|| TreeError::MissingModule {
                declared_in: path.clone(),
                module: child.module.join("::"),
            })?;
            self.read_file(file, child.module, &child.folder)?;
        }
        Ok(())
    }

    /// Notes what the items of a module declare, and the modules that have files of their own.
    fn note_items(
        &mut self,
        items: &[Item],
        module: &[String],
        folder: &Path,
        children: &mut Vec<Child>,
    ) {
        for item in items.iter().filter(|item| !only_in_tests(attributes(item))) {
            if let Some(name) = declared_name(item) {
                self.names.entry(module.to_vec()).or_default().declared.insert(name);
            }
            match item {
                Item::Mod(inner) => self.note_module(inner, module, folder, children),
                Item::Use(item) => {
                    let names = self.names.entry(module.to_vec()).or_default();
                    note_use(&item.tree, &mut Vec::new(), names);
                }
                Item::Macro(item) if has(&item.attrs, "macro_export") => {
                    if let (Some(name), Some(layer)) = (&item.ident, module.first()) {
                        self.macros.insert(name.to_string(), layer.clone());
                    }
                }
                _ => {}
            }
        }
    }

    fn note_module(
        &mut self,
        item: &ItemMod,
        module: &[String],
        folder: &Path,
        children: &mut Vec<Child>,
    ) {
        let name = plain(&item.ident);
        let mut path = module.to_vec();
        path.push(name.clone());
        self.names.entry(path.clone()).or_default();
        match &item.content {
            Some((_, items)) => self.note_items(items, &path, &folder.join(&name), children),
            None => {
                children.push(Child { module: path, folder: folder.join(name) });
            }
        }
    }
}

/// A module with a file of its own.
struct Child {
    module: ModulePath,
    /// The folder of its own child modules; its file has the same name, or is `mod.rs` in it.
    folder: PathBuf,
}

impl Child {
    fn find(&self) -> Option<PathBuf> {
        let files = [self.folder.with_extension("rs"), self.folder.join("mod.rs")];
        files.into_iter().find(|file| file.is_file())
    }
}

/// An identifier without `r#`.
#[must_use]
pub fn plain(ident: &syn::Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}

fn note_use(tree: &UseTree, prefix: &mut Vec<String>, names: &mut Names) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(plain(&path.ident));
            note_use(&path.tree, prefix, names);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = prefix.last() {
                names.imported.insert(last.clone(), prefix.clone());
            }
        }
        UseTree::Name(name) => {
            let name = plain(&name.ident);
            let path = prefix.iter().cloned().chain([name.clone()]).collect();
            names.imported.insert(name, path);
        }
        UseTree::Rename(rename) => {
            let mut path = prefix.clone();
            if rename.ident != "self" {
                path.push(plain(&rename.ident));
            }
            names.imported.insert(plain(&rename.rename), path);
        }
        UseTree::Glob(_) => names.globs.push(prefix.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                note_use(tree, prefix, names);
            }
        }
    }
}

fn declared_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(plain(ident))
}

/// The attributes of an item.
#[must_use]
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn has(attributes: &[Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident(name))
}

/// Whether the attributes leave an item out of every build that is not a test.
#[must_use]
pub fn only_in_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        if attribute.path().is_ident("cfg") {
            return attribute.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition));
        }
        // `#[test]`, `#[tokio::test]`.
        attribute.path().segments.last().is_some_and(|segment| segment.ident == "test")
    })
}

/// Whether a condition of `cfg` holds in tests only.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::NameValue(_) => false,
        Meta::List(list) => {
            let parser = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
            let Ok(parts) = list.parse_args_with(parser) else { return false };
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else {
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
            }
        }
    }
}
