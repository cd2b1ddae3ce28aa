//! Compares the imports of a crate with the order of its layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::declared::Crate;
use crate::imports::{Import, Target, imports};
use crate::tree::{Tree, TreeError};

/// What a check of one crate found.
#[derive(Debug)]
pub struct Checked {
    /// How many files were read.
    pub files: usize,
    /// How many imports between two layers they have.
    pub imports: usize,
    /// What is not in order, by file and line.
    pub violations: Vec<Violation>,
}

/// One thing that is not in order.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Violation {
    /// The file, or the source folder if it is about the declared order.
    pub file: PathBuf,
    /// The line, from 1; 0 if it is about no line.
    pub line: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is not in order.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// A layer imports one that is before it.
    Backwards {
        /// The importing layer.
        from: String,
        /// The imported one.
        to: String,
        /// The path as it is written.
        import: String,
    },
    /// A layer imports one of its own row.
    SideBySide {
        /// The importing layer.
        from: String,
        /// The imported one.
        to: String,
        /// The path as it is written.
        import: String,
    },
    /// A layer imports all names of the crate's root.
    WholeRoot {
        /// The importing layer.
        from: String,
        /// The path as it is written.
        import: String,
    },
    /// The order does not have this layer.
    NotDeclared(String),
    /// The order has a layer that the crate has not.
    NoSuchLayer(String),
    /// The order has a layer twice.
    DeclaredTwice(String),
    /// An exception that nothing needs.
    UnusedException {
        /// Its file.
        file: String,
        /// Its layer.
        layer: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backwards { from, to, import } => {
                write!(
                    f,
                    "`{import}`: {from} must not import {to}, which is before it in the order"
                )
            }
            Self::SideBySide { from, to, import } => {
                write!(f, "`{import}`: {from} must not import {to}, which is in the same row")
            }
            Self::WholeRoot { from, import } => {
                write!(
                    f,
                    "`{import}`: {from} must import by name, not the root of the crate as a whole"
                )
            }
            Self::NotDeclared(layer) => {
                write!(
                    f,
                    "layer {layer} has no place in the order; add it to tests/layers/src/declared.rs"
                )
            }
            Self::NoSuchLayer(layer) => {
                write!(f, "there is no layer {layer}; remove it from tests/layers/src/declared.rs")
            }
            Self::DeclaredTwice(layer) => {
                write!(f, "layer {layer} is in the order twice; see tests/layers/src/declared.rs")
            }
            Self::UnusedException { file, layer } => {
                write!(
                    f,
                    "{file} does not import {layer}; remove the exception from tests/layers/src/declared.rs"
                )
            }
        }
    }
}

/// Checks one crate of the repository at `root`.
///
/// # Errors
/// [`TreeError`] if its files cannot be read or parsed.
pub fn check(root: &Path, declared: &Crate) -> Result<Checked, TreeError> {
    let src = root.join(declared.src);
    let tree = Tree::read(&src)?;
    let order = Order::of(declared);
    let mut checked =
        Checked { files: tree.files.len(), imports: 0, violations: order.faults(&tree, &src) };
    let mut excepted = BTreeSet::new();
    for file in &tree.files {
        for import in imports(file, &tree, declared.name) {
            let Some((from, to)) = between_layers(&import) else { continue };
            checked.imports += 1;
            let Some(fault) = order.judge(from, to, &import) else { continue };
            let exception = declared.exceptions.iter().position(|exception| {
                file.path == src.join(exception.file) && to == Some(exception.layer)
            });
            match exception {
                Some(at) => {
                    excepted.insert(at);
                }
                None => checked.violations.push(Violation {
                    file: file.path.clone(),
                    line: import.line,
                    fault,
                }),
            }
        }
    }
    for (at, exception) in declared.exceptions.iter().enumerate() {
        if !excepted.contains(&at) {
            let (file, layer) = (exception.file.to_owned(), exception.layer.to_owned());
            let fault = Fault::UnusedException { file, layer };
            checked.violations.push(Violation { file: src.clone(), line: 0, fault });
        }
    }
    checked.violations.sort();
    Ok(checked)
}

/// The two layers of an import that leaves its own; the second is `None` for the root as a whole.
fn between_layers(import: &Import) -> Option<(&str, Option<&str>)> {
    let from = import.from.as_deref()?;
    match &import.target {
        Target::RootItem => None,
        Target::WholeRoot => Some((from, None)),
        Target::Layer(to) if to == from => None,
        Target::Layer(to) => Some((from, Some(to))),
    }
}

/// The row of each layer, counted from the outermost.
struct Order<'a> {
    rows: BTreeMap<&'a str, usize>,
    twice: Vec<&'a str>,
}

impl<'a> Order<'a> {
    fn of(declared: &Crate) -> Self {
        let mut order = Self { rows: BTreeMap::new(), twice: Vec::new() };
        for (row, layers) in declared.rows.iter().enumerate() {
            for layer in *layers {
                if order.rows.insert(layer, row).is_some() {
                    order.twice.push(layer);
                }
            }
        }
        order
    }

    /// How the declared order differs from the layers that there are.
    fn faults(&self, tree: &Tree, src: &Path) -> Vec<Violation> {
        let layers: BTreeSet<&str> =
            tree.names.keys().filter_map(|module| module.first()).map(String::as_str).collect();
        let missing = layers.iter().filter(|layer| !self.rows.contains_key(*layer));
        let stale = self.rows.keys().filter(|layer| !layers.contains(*layer));
        let twice = self.twice.iter();
        missing
            .map(|layer| Fault::NotDeclared((*layer).to_owned()))
            .chain(stale.map(|layer| Fault::NoSuchLayer((*layer).to_owned())))
            .chain(twice.map(|layer| Fault::DeclaredTwice((*layer).to_owned())))
            .map(|fault| Violation { file: src.to_owned(), line: 0, fault })
            .collect()
    }

    fn judge(&self, from: &str, to: Option<&str>, import: &Import) -> Option<Fault> {
        let import = import.written.clone();
        let from_row = self.rows.get(from)?;
        let Some(to) = to else {
            return Some(Fault::WholeRoot { from: from.to_owned(), import });
        };
        let to_row = self.rows.get(to)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        match to_row.cmp(from_row) {
            std::cmp::Ordering::Less => Some(Fault::Backwards { from, to, import }),
            std::cmp::Ordering::Equal => Some(Fault::SideBySide { from, to, import }),
            std::cmp::Ordering::Greater => None,
        }
    }
}
