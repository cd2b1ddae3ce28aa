//! From the text of an import to the file it means.
//!
//! A handler reads files of one folder only: of the nearest folder above it that has a `package.json`, or of its
//! own. So a handler cannot import what does not belong to its project, such as another topic's secrets.

use std::path::{Component, Path, PathBuf};

use super::super::watched::Files;
use super::package;
use crate::regular_file::fingerprint;

/// The module that the engine provides.
const SDK: &str = "duebox";
/// What may be missing at the end of a path.
const EXTENSIONS: [&str; 6] = ["ts", "mts", "js", "mjs", "cjs", "json"];
/// Some of Node's modules, which have no prefix.
const NODE: [&str; 20] = [
    "assert",
    "buffer",
    "child_process",
    "crypto",
    "dns",
    "events",
    "fs",
    "http",
    "https",
    "net",
    "os",
    "path",
    "process",
    "stream",
    "timers",
    "tls",
    "url",
    "util",
    "worker_threads",
    "zlib",
];

/// The folder that a handler may read.
pub(super) struct Folder {
    path: PathBuf,
    /// Without links.
    real: Option<PathBuf>,
}

/// How a file is asked for: a package may have one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Import,
    Require,
}

/// What an import means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    Sdk,
    File(PathBuf),
}

impl Folder {
    /// The folder of a handler.
    pub(super) fn of(handler: &Path) -> Self {
        let own = match handler.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let has_package = |folder: &&Path| folder.join("package.json").is_file();
        let path = own.ancestors().filter(|it| *it != Path::new("")).find(has_package);
        let path = path.unwrap_or(own).to_owned();
        Self { real: path.canonicalize().ok(), path }
    }

    /// The name of a file in traces: its path in the folder.
    pub(super) fn name_of(&self, file: &Path) -> String {
        file.strip_prefix(&self.path).unwrap_or(file).to_string_lossy().into_owned()
    }

    /// The file that an import in a file means. `looked_at` gets the paths whose appearance would change that.
    pub(super) fn resolve(
        &self,
        from: &Path,
        specifier: &str,
        wanted: Wanted,
        looked_at: &mut Files,
    ) -> Result<Resolved, String> {
        if specifier == SDK {
            return Ok(Resolved::Sdk);
        }
        if specifier.starts_with("node:") || NODE.contains(&specifier) {
            return Err("it is a module of Node, which a handler does not have".to_owned());
        }
        let folder = from.parent().unwrap_or(Path::new("."));
        if specifier.starts_with("./")
            || specifier.starts_with("../")
            || [".", ".."].contains(&specifier)
        {
            let path = normal(&folder.join(specifier));
            return self.file(&path, wanted, looked_at).map(Resolved::File);
        }
        if specifier.starts_with(['/', '#', '.']) || specifier.contains(':') {
            return Err("an import is a relative path (./…) or the name of a package".to_owned());
        }
        self.package(folder, specifier, wanted, looked_at).map(Resolved::File)
    }

    /// The file at a path, which may lack its extension.
    fn file(&self, path: &Path, wanted: Wanted, looked_at: &mut Files) -> Result<PathBuf, String> {
        let is_jsx = path.extension().is_some_and(|it| it == "tsx" || it == "jsx");
        if is_jsx && path.is_file() {
            return Err("it is a file with JSX, which a handler does not have".to_owned());
        }
        let candidates = candidates(path);
        if let Some(found) = candidates.iter().find(|path| path.is_file()) {
            return self.check(found);
        }
        // A folder in a package may name its main file.
        let manifest = path.join("package.json");
        if self.name_of(path).contains("node_modules/") && manifest.is_file() {
            looked_at.insert(manifest.clone(), fingerprint(&manifest));
            self.check(&manifest)?;
            let main = normal(&path.join(package::entry(&manifest, "", wanted)?));
            if let Some(found) = self::candidates(&main).iter().find(|path| path.is_file()) {
                return self.check(found);
            }
        }
        // Where it may appear.
        looked_at.extend(candidates.into_iter().map(|path| (path.clone(), fingerprint(&path))));
        Err(format!("there is no file {}", self.name_of(path)))
    }

    /// A file of a package in `node_modules`, of this folder or one above it.
    fn package(
        &self,
        from: &Path,
        specifier: &str,
        wanted: Wanted,
        looked_at: &mut Files,
    ) -> Result<PathBuf, String> {
        let (name, subpath) = package::split(specifier);
        for folder in from.ancestors().take_while(|folder| folder.starts_with(&self.path)) {
            let package = folder.join("node_modules").join(name);
            let manifest = package.join("package.json");
            if manifest.is_file() {
                looked_at.insert(manifest.clone(), fingerprint(&manifest));
                self.check(&manifest)?;
                let inside = package::entry(&manifest, subpath, wanted)?;
                return self.file(&normal(&package.join(inside)), wanted, looked_at);
            }
        }
        let manifest = self.path.join("node_modules").join(name).join("package.json");
        looked_at.insert(manifest, None);
        Err(format!("there is no package {name} in node_modules; run npm install {name}"))
    }

    /// Refuses a file outside of the folder, through links too.
    fn check(&self, file: &Path) -> Result<PathBuf, String> {
        let real = file.canonicalize().map_err(|error| error.to_string())?;
        match &self.real {
            Some(folder) if real.starts_with(folder) => Ok(file.to_owned()),
            _ => Err(format!(
                "it is outside of {}, the folder of the handler; a package.json further up makes that folder the project",
                self.path.display()
            )),
        }
    }
}

/// The paths that an import may mean, best first: as it is, with an extension, the TypeScript file of a `.js`, and
/// the index of a folder.
fn candidates(wanted: &Path) -> Vec<PathBuf> {
    let with = |extension: &str| {
        let mut path = wanted.as_os_str().to_owned();
        path.push(".");
        path.push(extension);
        PathBuf::from(path)
    };
    let is_known = |extension: &str| EXTENSIONS.contains(&extension);
    let extension = wanted.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let mut all = Vec::new();
    if is_known(extension) {
        all.push(wanted.to_owned());
    }
    match extension {
        "js" => all.push(wanted.with_extension("ts")),
        "mjs" => all.push(wanted.with_extension("mts")),
        _ => {}
    }
    all.extend(EXTENSIONS.iter().map(|extension| with(extension)));
    all.extend(["ts", "js"].iter().map(|extension| wanted.join(format!("index.{extension}"))));
    all
}

/// A path without `.` and `..`. The check of the result follows links.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(normal.components().next_back(), Some(Component::Normal(_))) =>
            {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn resolve(folder: &Path, from: &str, specifier: &str) -> Result<String, String> {
        let handler = folder.join("project/handlers/close.ts");
        let project = Folder::of(&handler);
        let from = folder.join("project").join(from);
        let wanted = if specifier.contains("dual") { Wanted::Require } else { Wanted::Import };
        match project.resolve(&from, specifier, wanted, &mut Files::new())? {
            Resolved::Sdk => Ok("the SDK".to_owned()),
            Resolved::File(file) => Ok(project.name_of(&file)),
        }
    }

    /// A project with two handlers, a library, packages, and a file outside of it.
    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("secret.json", "{}"),
            ("project/package.json", "{}"),
            ("project/handlers/close.ts", ""),
            ("project/lib/money.ts", ""),
            ("project/lib/rates.json", "{}"),
            ("project/lib/index.js", ""),
            (
                "project/node_modules/plain/package.json",
                r#"{"module":"./dist/plain.mjs","main":"x.cjs"}"#,
            ),
            ("project/node_modules/plain/dist/plain.mjs", ""),
            (
                "project/node_modules/@scope/new/package.json",
                r#"{"exports":{".":{"require":"./no.cjs","import":{"default":"./yes.js"}},"./sub/*":"./lib/*.js"}}"#,
            ),
            ("project/node_modules/dual/package.json", r#"{"module":"m.mjs","main":"./lib"}"#),
            ("project/node_modules/dual/lib/package.json", r#"{"main":"main.cjs"}"#),
            ("project/node_modules/dual/lib/main.cjs", ""),
            ("project/lib/view.tsx", ""),
            ("project/node_modules/@scope/new/yes.js", ""),
            ("project/node_modules/@scope/new/lib/a.js", ""),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn imports_are_found_as_typescript_and_bundlers_find_them() {
        let folder = project();
        for (specifier, wanted) in [
            ("duebox", "the SDK"),
            ("../lib/money", "lib/money.ts"),
            ("../lib/money.js", "lib/money.ts"),
            ("../lib/money.ts", "lib/money.ts"),
            ("../lib/rates.json", "lib/rates.json"),
            ("../lib", "lib/index.js"),
            ("plain", "node_modules/plain/dist/plain.mjs"),
            ("dual", "node_modules/dual/lib/main.cjs"),
            ("@scope/new", "node_modules/@scope/new/yes.js"),
            ("@scope/new/sub/a", "node_modules/@scope/new/lib/a.js"),
        ] {
            let found = resolve(folder.path(), "handlers/close.ts", specifier);
            assert_eq!(found.as_deref(), Ok(wanted), "{specifier}");
        }
    }

    #[test]
    fn what_cannot_be_imported_is_refused_with_the_reason() {
        let folder = project();
        let link = folder.path().join("project/lib/link.json");
        std::os::unix::fs::symlink("../../secret.json", link).unwrap();
        for (specifier, wanted) in [
            ("../lib/none", "there is no file lib/none"),
            ("../lib/view.tsx", "a file with JSX"),
            ("../../secret.json", "it is outside of"),
            ("../lib/link.json", "it is outside of"),
            ("/etc/passwd", "an import is a relative path"),
            ("https://example.com/a.js", "an import is a relative path"),
            ("node:fs", "it is a module of Node"),
            ("fs", "it is a module of Node"),
            ("left-pad", "there is no package left-pad"),
            ("@scope/new/other", "exports no ./other"),
        ] {
            let refused = resolve(folder.path(), "handlers/close.ts", specifier).unwrap_err();
            assert!(refused.contains(wanted), "{specifier}: {refused}");
        }
    }

    #[test]
    fn without_a_package_json_only_the_own_folder_is_read() {
        let folder = project();
        fs::remove_file(folder.path().join("project/package.json")).unwrap();
        let refused = resolve(folder.path(), "handlers/close.ts", "../lib/money").unwrap_err();
        assert!(refused.contains("it is outside of"), "{refused}");
    }
}
