//! From the name of a module to its file.
//!
//! Invariant: a handler reads files of one folder only, through links too: of the nearest folder above it that has a
//! `pyproject.toml`, or of its own; and packages that the manifest names. So it cannot import what does not belong to
//! its project, such as another topic's secrets.

use std::path::{Path, PathBuf};

use super::super::sources::Sources;
use super::packages;

/// The folder of packages next to a handler, or in its project.
const VENDOR: &str = "vendor";
/// The file that makes a folder a project.
const PROJECT: &str = "pyproject.toml";

/// The folder that a handler may read.
pub(super) struct Folder {
    path: PathBuf,
    /// Where imports are looked for, in this order.
    roots: Vec<PathBuf>,
    /// The packages that the manifest names.
    packages: Option<PathBuf>,
    /// Both folders without links.
    real: Vec<PathBuf>,
}

/// The file of a module.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Module(PathBuf),
    /// A package, with its `__init__.py`.
    Package(PathBuf),
    /// A package that is only a folder.
    Namespace(PathBuf),
    /// A compiled module, which cannot be imported.
    Compiled(PathBuf),
}

impl Folder {
    /// The folder of a handler, with the packages that the manifest names.
    pub(super) fn of(handler: &Path, packages: Option<PathBuf>) -> Self {
        let own = match handler.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let is_project = |folder: &&Path| folder.join(PROJECT).is_file();
        let path = own.ancestors().filter(|it| *it != Path::new("")).find(is_project);
        let path = path.unwrap_or(own).to_owned();
        let mut roots = vec![own.to_owned(), own.join(VENDOR)];
        if path != own {
            roots.extend([path.clone(), path.join(VENDOR)]);
        }
        roots.extend(packages.clone());
        let folders = [Some(&path), packages.as_ref()].into_iter().flatten();
        let real = folders.filter_map(|folder| folder.canonicalize().ok()).collect();
        Self { path, roots, packages, real }
    }

    /// The name of a file in traces: its path in the folder, or among the packages.
    pub(super) fn name_of(&self, file: &Path) -> String {
        let package = self.packages.as_ref().and_then(|folder| file.strip_prefix(folder).ok());
        let name = package.unwrap_or_else(|| file.strip_prefix(&self.path).unwrap_or(file));
        name.to_string_lossy().into_owned()
    }

    /// The file of a module, from its name with dots: next to the handler, in `vendor`, or there in the project.
    pub(super) fn find(&self, module: &str, sources: &mut Sources) -> Option<Found> {
        let is_name = |part: &str| !part.is_empty() && !part.contains(['/', '\\', '\0']);
        if !module.split('.').all(is_name) {
            return None;
        }
        let path: PathBuf = module.split('.').collect();
        let bases: Vec<PathBuf> = self.roots.iter().map(|root| root.join(&path)).collect();
        let found = bases.iter().find_map(|base| self.at(base, sources));
        // A folder is a package only if nothing else has the name.
        found.or_else(|| bases.iter().find_map(|base| self.compiled_at(base))).or_else(|| {
            let folder = bases.into_iter().find(|base| base.is_dir() && self.owns(base));
            folder.map(Found::Namespace)
        })
    }

    fn at(&self, base: &Path, sources: &mut Sources) -> Option<Found> {
        let package = base.join("__init__.py");
        let module = base.with_added_extension("py");
        for path in [&package, &module] {
            sources.look_at(path);
        }
        if package.is_file() && self.owns(&package) {
            return Some(Found::Package(package));
        }
        (module.is_file() && self.owns(&module)).then_some(Found::Module(module))
    }

    fn compiled_at(&self, base: &Path) -> Option<Found> {
        let found = packages::compiled(base.parent()?, base.file_name()?.to_str()?)?;
        self.owns(&found).then_some(Found::Compiled(found))
    }

    /// Whether a file is in one of the folders, through links too.
    fn owns(&self, file: &Path) -> bool {
        let real = file.canonicalize();
        real.is_ok_and(|real| self.real.iter().any(|folder| real.starts_with(folder)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn find(folder: &Path, module: &str) -> Option<String> {
        let packages = folder.join("site-packages");
        let own = Folder::of(&folder.join("handlers/report.py"), Some(packages));
        match own.find(module, &mut Sources::new(1))? {
            Found::Module(path) => Some(own.name_of(&path)),
            Found::Package(path) => Some(format!("package {}", own.name_of(&path))),
            Found::Namespace(path) => Some(format!("folder {}", own.name_of(&path))),
            Found::Compiled(path) => Some(format!("compiled {}", own.name_of(&path))),
        }
    }

    #[test]
    fn modules_are_found_next_to_the_handler_and_in_vendor_only() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "secret.py",
            "handlers/report.py",
            "handlers/money.py",
            "handlers/lib/__init__.py",
            "handlers/lib/fail.py",
            "handlers/plain/a.py",
            "handlers/vendor/money.py",
            "handlers/vendor/pad/__init__.py",
            "handlers/vendor/single.py",
            "site-packages/single.py",
            "site-packages/slug/__init__.py",
            "site-packages/slug/_fast.cpython-313-x86_64-linux-gnu.so",
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for link in ["handlers/link.py", "site-packages/leak.py"] {
            std::os::unix::fs::symlink("../secret.py", folder.path().join(link)).unwrap();
        }
        for (module, wanted) in [
            ("money", Some("money.py")),
            ("lib", Some("package lib/__init__.py")),
            ("lib.fail", Some("lib/fail.py")),
            ("plain", Some("folder plain")),
            ("plain.a", Some("plain/a.py")),
            ("pad", Some("package vendor/pad/__init__.py")),
            ("single", Some("vendor/single.py")),
            ("slug", Some("package slug/__init__.py")),
            ("slug._fast", Some("compiled slug/_fast.cpython-313-x86_64-linux-gnu.so")),
            ("slug.absent", None),
            ("leak", None),
            ("secret", None),
            ("link", None),
            ("json", None),
            ("..secret", None),
            ("../secret", None),
        ] {
            assert_eq!(find(folder.path(), module).as_deref(), wanted, "{module}");
        }
        // A project may import from all its folders.
        fs::write(folder.path().join(PROJECT), "").unwrap();
        for (module, wanted) in [
            ("money", "handlers/money.py"),
            ("secret", "secret.py"),
            ("handlers.money", "handlers/money.py"),
        ] {
            assert_eq!(find(folder.path(), module).as_deref(), Some(wanted), "{module}");
        }
    }
}
