//! Risks of `dirs`: directories that contain more than a handler should read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Risks;
use crate::manifest::{Manifest, RedisUrl, Topic};

/// Directories of the whole machine. No directory below a `CLOSED` one should be granted.
const SHARED: [&str; 8] = ["/", "/etc", "/home", "/opt", "/run", "/tmp", "/usr", "/var"];
const CLOSED: [&str; 5] = ["/boot", "/dev", "/proc", "/root", "/sys"];

/// Paths that no granted directory should contain, each with a description.
pub(super) struct Private(Vec<(PathBuf, &'static str)>);

impl Private {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let mut all = Vec::new();
        if let RedisUrl::Managed { dir, .. } = &manifest.redis.url {
            all.push((dir.clone(), "the data of Redis"));
        }
        if let Some(cache) = &manifest.runner.cache {
            all.push((cache.path.clone(), "the compiled modules"));
        }
        let secrets = manifest.all_settings().flat_map(Topic::secret_files);
        all.extend(secrets.map(|file| (file.to_owned(), "a secret")));
        // Both the written path and its target, in case it is a symbolic link.
        let targets: Vec<_> =
            all.iter().filter_map(|(path, is)| Some((real(path)?, *is))).collect();
        all.extend(targets);
        Self(all)
    }

    /// The first of these paths inside a directory.
    fn inside(&self, dir: &Path) -> Option<&(PathBuf, &'static str)> {
        self.0.iter().find(|(path, _)| path.starts_with(dir))
    }
}

fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

impl Risks<'_> {
    pub(super) fn check_folders(&self, private: &Private) {
        for (guest, host) in &self.topic.grants.dirs {
            // The directory existed when the manifest was read; it may be gone now.
            let Some(dir) = real(host) else { continue };
            let at = self.dir_at(guest);
            let (shown, hint) =
                (dir.display(), "grant a separate directory with only the files it needs");
            let is_shared = SHARED.iter().any(|path| dir == Path::new(path));
            if is_shared || CLOSED.iter().any(|path| dir.starts_with(path)) {
                let what = format!("`dirs` lets the handler read the system directory {shown}");
                self.warn(at, &what, hint);
            } else if let Some((path, is)) = private.inside(&dir) {
                let path = path.display();
                let what =
                    format!("`dirs` lets the handler read {shown}, which contains {is}: {path}");
                self.warn(at, &what, hint);
            }
        }
    }

    /// The byte range of a directory's grant, in the topic's table or in `[defaults]`.
    fn dir_at(&self, guest: &str) -> Option<Range<usize>> {
        let tables = self.tables.iter().flatten();
        let mut found = tables.filter_map(|table| {
            let dirs = table.get("sandbox")?.get_ref().as_table()?.get("dirs")?;
            Some(dirs.get_ref().as_table()?.get(guest)?.span())
        });
        found.next()
    }
}
