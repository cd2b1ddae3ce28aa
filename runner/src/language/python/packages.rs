//! The packages that the manifest names (`runner.python_path`).

use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::super::error::SourceError;
use super::super::sources::Sources;

/// The file that makes a folder a virtual environment.
const ENVIRONMENT: &str = "pyvenv.cfg";

/// The folder that the manifest names.
static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the folder from which handlers import packages: a virtual environment, or a folder of packages.
pub fn import_python_from(folder: Option<&Path>) {
    *FOLDER.lock() = folder.map(Path::to_owned);
}

/// The folder of packages, if the manifest names one.
pub(super) fn folder(sources: &mut Sources) -> Result<Option<PathBuf>, SourceError> {
    let Some(named) = FOLDER.lock().clone() else { return Ok(None) };
    // Where it may appear.
    sources.look_at(&named);
    sources.look_at(&named.join(ENVIRONMENT));
    match fs::read_dir(&named) {
        Ok(_) => Ok(Some(within(&named))),
        Err(error) => Err(SourceError::Unreadable { path: named, error }),
    }
}

/// The packages of a virtual environment, or the folder itself.
fn within(folder: &Path) -> PathBuf {
    if !folder.join(ENVIRONMENT).is_file() {
        return folder.to_owned();
    }
    let versions = fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
    let packages = versions.map(|version| version.path().join("site-packages"));
    packages.filter(|packages| packages.is_dir()).max().unwrap_or_else(|| folder.to_owned())
}

/// The compiled module of this name in a folder, such as `_speedups.cpython-313-x86_64-linux-gnu.so`.
pub(super) fn compiled(folder: &Path, module: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_compiled = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(module).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| rest.ends_with("so") || rest.ends_with("pyd"))
    };
    files.into_iter().find(is_compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_environment_means_its_packages() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(within(folder.path()), folder.path());
        let packages = folder.path().join("lib/python3.13/site-packages");
        fs::create_dir_all(&packages).unwrap();
        assert_eq!(within(folder.path()), folder.path());
        fs::write(folder.path().join(ENVIRONMENT), "").unwrap();
        assert_eq!(within(folder.path()), packages);
        assert_eq!(within(&packages), packages);
    }

    #[test]
    fn compiled_modules_are_known_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["fast.abi3.so", "slow.py", "faster.pyd"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |module| compiled(folder.path(), module).is_some();
        assert!(found("fast") && found("faster"));
        assert!(!found("slow") && !found("fas") && !found("abi3"));
    }
}
