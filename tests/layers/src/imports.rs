//! What a file imports from its own crate: every path that begins with `crate`, `self`, `super` or the crate's
//! name, and the layer it leads to.
//!
//! Paths are found in `use` items, types, expressions, patterns, attributes (also in their strings, as in
//! `#[serde(with = "crate::…")]`) and in the tokens of macros. Paths that a macro puts together are not seen.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, ImplItem, Item, ItemMod, ItemUse, Lit, Local, Macro, Meta, Path, Token, TraitItem,
    UseTree, Visibility,
};

use crate::tree::{ModulePath, Names, SourceFile, Tree, attributes, only_in_tests, plain};

/// Re-exports that are followed from one to the next, so that two that name each other end.
const HOPS_MAX: usize = 8;

/// One path into the file's own crate.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Import {
    /// The line it begins on, from 1.
    pub line: usize,
    /// The layer that it is in; `None` in the root of the crate.
    pub from: Option<String>,
    /// The path as it is written.
    pub written: String,
    /// What it leads to.
    pub target: Target,
}

/// What a path leads to.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// Something in a layer.
    Layer(String),
    /// An item of the crate's root itself.
    RootItem,
    /// All names of the root at once, which hides the layers behind them.
    WholeRoot,
}

/// The imports of one file, in the order of their lines.
#[must_use]
pub fn imports(file: &SourceFile, tree: &Tree, crate_name: &str) -> Vec<Import> {
    let mut collector =
        Collector { tree, crate_name, module: file.module.clone(), found: Vec::new() };
    collector.visit_file(&file.syntax);
    collector.found.sort();
    collector.found.dedup();
    collector.found
}

struct Collector<'a> {
    tree: &'a Tree,
    crate_name: &'a str,
    module: ModulePath,
    found: Vec<Import>,
}

impl Collector<'_> {
    fn note(&mut self, segments: &[String], span: Span) {
        let Some(path) = self.absolute(segments) else { return };
        self.found.push(Import {
            line: span.start().line,
            from: self.module.first().cloned(),
            written: segments.strip_suffix(&["self".to_owned()]).unwrap_or(segments).join("::"),
            target: match path.first().map(String::as_str) {
                None | Some("*") => Target::WholeRoot,
                Some(_) => self.target(&path, HOPS_MAX),
            },
        });
    }

    /// The path from the crate's root; `None` if it leads out of the crate or is a name in scope.
    fn absolute(&self, segments: &[String]) -> Option<Vec<String>> {
        let mut rest = segments.iter().map(String::as_str).peekable();
        let mut base = match rest.next()? {
            "crate" => Vec::new(),
            name if name == self.crate_name => Vec::new(),
            "self" => self.module.clone(),
            "super" => parent(&self.module),
            _ => return None,
        };
        while rest.next_if_eq(&"super").is_some() {
            base = parent(&base);
        }
        base.extend(rest.filter(|segment| *segment != "self").map(str::to_owned));
        Some(base)
    }

    /// Where a path from the root leads, through the root's re-exports.
    fn target(&self, path: &[String], hops: usize) -> Target {
        let (Some(name), Some(root)) = (path.first(), self.tree.names.get(&ModulePath::new()))
        else {
            return Target::RootItem;
        };
        if self.tree.names.contains_key(std::slice::from_ref(name)) {
            return Target::Layer(name.clone());
        }
        if let Some(import) = root.imported.get(name)
            && hops > 0
        {
            return self.target(self.strip_root(import), hops - 1);
        }
        if let Some(layer) = self.tree.macros.get(name) {
            return Target::Layer(layer.clone());
        }
        let glob = root.globs.iter().map(|glob| self.strip_root(glob)).find(|glob| {
            self.tree.names.get(*glob).is_some_and(|names| self.provides(names, glob, name, hops))
        });
        match glob {
            Some(glob) if hops > 0 => self.target(glob, hops - 1),
            _ => Target::RootItem,
        }
    }

    /// A path that the root writes, without its leading `crate`, `self` or crate name.
    fn strip_root<'p>(&self, path: &'p [String]) -> &'p [String] {
        match path {
            [first, rest @ ..]
                if first == "crate" || first == "self" || first == self.crate_name =>
            {
                rest
            }
            _ => path,
        }
    }

    /// Whether a module declares or re-exports a name.
    fn provides(&self, names: &Names, module: &[String], name: &str, hops: usize) -> bool {
        names.declared.contains(name)
            || names.imported.contains_key(name)
            || hops > 0
                && names.globs.iter().any(|glob| {
                    let inner = match glob.first().map(String::as_str) {
                        Some("crate") => glob[1..].to_vec(),
                        Some("self") => [module, &glob[1..]].concat(),
                        Some("super") => [&parent(module), &glob[1..]].concat(),
                        _ => [module, glob].concat(),
                    };
                    let found = self.tree.names.get(&inner);
                    found.is_some_and(|names| self.provides(names, &inner, name, hops - 1))
                })
    }

    fn note_use(&mut self, tree: &UseTree, prefix: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(plain(&path.ident));
                self.note_use(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(leaf) => self.note_leaf(&leaf.ident, prefix),
            UseTree::Rename(leaf) => self.note_leaf(&leaf.ident, prefix),
            UseTree::Glob(glob) => {
                prefix.push("*".to_owned());
                self.note(prefix, glob.star_token.spans[0]);
                prefix.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_use(tree, prefix);
                }
            }
        }
    }

    fn note_leaf(&mut self, ident: &syn::Ident, prefix: &mut Vec<String>) {
        prefix.push(plain(ident));
        self.note(prefix, ident.span());
        prefix.pop();
    }

    fn begins_path(&self, ident: &syn::Ident) -> bool {
        ident == "crate" || ident == "self" || ident == "super" || ident == self.crate_name
    }

    /// Looks for paths in tokens that are not parsed; in `strings` too, if they are an attribute's.
    fn note_tokens(&mut self, tokens: TokenStream, strings: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.note_tokens(group.stream(), strings),
                TokenTree::Ident(ident)
                    if self.begins_path(ident) && !(at > 0 && is_colon(&tokens[at - 1])) =>
                {
                    self.note_token_path(plain(ident), ident.span(), &tokens[at + 1..]);
                }
                TokenTree::Literal(literal) if strings => {
                    if let Lit::Str(text) = Lit::new(literal.clone()) {
                        self.note_string(&text.value(), literal.span());
                    }
                }
                _ => {}
            }
        }
    }

    /// Notes the path that begins with `first` and goes on in `rest`.
    fn note_token_path(&mut self, first: String, span: Span, mut rest: &[TokenTree]) {
        let mut segments = vec![first];
        while let [first, second, next, after @ ..] = rest
            && is_colon(first)
            && is_colon(second)
        {
            match next {
                TokenTree::Ident(ident) => segments.push(plain(ident)),
                TokenTree::Punct(star) if star.as_char() == '*' => segments.push("*".to_owned()),
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let parser = Punctuated::<UseTree, Token![,]>::parse_terminated;
                    let trees = syn::parse::Parser::parse2(parser, group.stream());
                    for tree in trees.into_iter().flatten() {
                        self.note_use(&tree, &mut segments);
                    }
                    return;
                }
                _ => break,
            }
            rest = after;
        }
        if segments.len() > 1 {
            self.note(&segments, span);
        }
    }

    /// Notes a string that is a path, as attributes of derive macros have them.
    fn note_string(&mut self, text: &str, span: Span) {
        let is_name =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
        let segments: Vec<String> = text.split("::").map(str::to_owned).collect();
        if segments.len() > 1 && segments.iter().all(|part| is_name(part)) {
            self.note(&segments, span);
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !only_in_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(plain(&item.ident));
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.note_use(&item.tree, &mut Vec::new());
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes: &[Attribute] = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !only_in_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast TraitItem) {
        let attributes: &[Attribute] = match item {
            TraitItem::Const(item) => &item.attrs,
            TraitItem::Fn(item) => &item.attrs,
            TraitItem::Macro(item) => &item.attrs,
            TraitItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if !only_in_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !only_in_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !only_in_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none()
            && let Some(first) = path.segments.first()
            && path.segments.len() > 1
        {
            let segments: Vec<_> = path.segments.iter().map(|part| plain(&part.ident)).collect();
            self.note(&segments, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.note_tokens(call.tokens.clone(), false);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.note_tokens(list.tokens.clone(), true);
        }
    }

    /// `pub(in crate::…)` names a module around the item: nothing is imported.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn parent(module: &[String]) -> ModulePath {
    module.split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default()
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::CRATES;

    /// The syntax of every file is walked, and its tokens are scanned: both find the same paths.
    #[test]
    fn the_walk_finds_every_path_that_the_tokens_show() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut compared = 0;
        for declared in CRATES {
            let tree = Tree::read(&root.join(declared.src)).unwrap();
            for file in &tree.files {
                let text = std::fs::read_to_string(&file.path).unwrap();
                if ["cfg(test)", "cfg(all(test", "pub(in"]
                    .iter()
                    .any(|left_out| text.contains(left_out))
                {
                    continue;
                }
                let mut scan = Collector {
                    tree: &tree,
                    crate_name: declared.name,
                    module: file.module.clone(),
                    found: Vec::new(),
                };
                scan.note_tokens(text.parse().unwrap(), false);
                let of = |found: &[Import]| {
                    let mut paths: Vec<_> =
                        found.iter().map(|found| (found.line, found.written.clone())).collect();
                    paths.sort();
                    paths.dedup();
                    paths
                };
                let walked = of(&imports(file, &tree, declared.name));
                assert_eq!(walked, of(&scan.found), "{}", file.path.display());
                compared += walked.len();
            }
        }
        assert!(compared > 500, "only {compared} paths were compared");
    }
}
