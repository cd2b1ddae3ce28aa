//! The sources of a project: every file of its folder except what builds and daemons write. A change is reported once the
//! files have been quiet for a moment.
//!
//! An event only triggers a look, which compares fingerprints; so a read of a file, or a build's own files, is not a change.
//! Where the system notifies of nothing, the files are compared every second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::regular_file::{Fingerprint, fingerprint};

/// How long files must be quiet, so that an editor has finished.
const QUIET: Duration = Duration::from_millis(20);
/// It looks even if events go on for this long.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(500);
/// How often files are compared without an event.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// The most folders and files that are looked at.
const FOLDERS_MAX: usize = 2_000;
const FILES_MAX: usize = 20_000;
/// Folders that tools write, in the project's folder and anywhere in it.
const WRITTEN_AT_TOP: [&str; 4] = ["build", "target", "data", "dist"];
const WRITTEN: [&str; 2] = ["node_modules", "__pycache__"];
/// Where this process writes.
const OUTPUTS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];
/// Files that builds write next to sources.
const WRITTEN_FILES: [&str; 3] = ["Cargo.lock", "package-lock.json", "go.sum"];

/// A watch over the sources.
pub(super) struct SourceWatch {
    root: PathBuf,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Fingerprint>,
    event: Arc<Notify>,
    /// Where this process writes, which may be a file of the project.
    outputs: Vec<Fingerprint>,
    /// When files will have been quiet, and the latest time of the look.
    look_at: Option<(Instant, Instant)>,
}

/// Files that changed.
#[derive(Debug)]
pub(super) struct ChangedFiles {
    /// From the project's folder.
    pub(super) files: Vec<PathBuf>,
    /// When the last one was written.
    pub(super) saved_at: SystemTime,
}

/// What a look finds.
#[derive(Default)]
struct Found {
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Fingerprint>,
}

impl SourceWatch {
    /// Watches a folder from now on.
    pub(super) fn watch(root: &Path) -> Self {
        let event = Arc::new(Notify::new());
        let notified = Arc::clone(&event);
        let watcher = notify::recommended_watcher(move |found: notify::Result<notify::Event>| {
            if !found.is_ok_and(|event| event.kind.is_access()) {
                notified.notify_one();
            }
        });
        let mut sources = Self {
            root: root.to_owned(),
            watcher: watcher.ok(),
            watched: BTreeSet::new(),
            files: BTreeMap::new(),
            event,
            outputs: OUTPUTS.iter().filter_map(|path| fingerprint(Path::new(path))).collect(),
            look_at: None,
        };
        sources.look();
        sources
    }

    /// Waits for a change of a source. Nothing is lost if the wait is given up.
    pub(super) async fn changed(&mut self) -> ChangedFiles {
        loop {
            self.wait().await;
            self.look_at = None;
            let changed = self.look();
            if !changed.files.is_empty() {
                return changed;
            }
        }
    }

    /// Waits for an event and then for quiet, or until it is time to compare.
    async fn wait(&mut self) {
        loop {
            let Some((quiet_at, latest)) = self.look_at else {
                tokio::select! {
                    () = self.event.notified() => {
                        let now = Instant::now();
                        self.look_at = Some((now + QUIET, now + QUIET_WAIT_MAX));
                    }
                    () = tokio::time::sleep(COMPARE_EVERY) => return,
                }
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(quiet_at.min(latest)) => return,
                () = self.event.notified() => {
                    self.look_at = Some((Instant::now() + QUIET, latest));
                }
            }
        }
    }

    /// Compares all files with what was known of them, and follows new folders.
    fn look(&mut self) -> ChangedFiles {
        let mut found = Found::default();
        self.walk(&self.root, &mut found);
        if let Some(watcher) = &mut self.watcher {
            for folder in found.folders.difference(&self.watched) {
                // Without a watch the comparison finds its changes.
                drop(watcher.watch(folder, RecursiveMode::NonRecursive));
            }
        }
        let before = std::mem::replace(&mut self.files, found.files);
        self.watched = found.folders;
        let now = &self.files;
        let written = now.iter().filter(|(path, file)| before.get(*path) != Some(*file));
        let removed = before.keys().filter(|path| !now.contains_key(*path));
        let paths: Vec<&PathBuf> = written.map(|(path, _)| path).chain(removed).collect();
        let modified = |path: &&PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let saved_at = paths.iter().copied().filter_map(|path| modified(&path)).max();
        let own = |path: &PathBuf| path.strip_prefix(&self.root).unwrap_or(path).to_owned();
        let files = paths.iter().copied().map(own).collect();
        ChangedFiles { files, saved_at: saved_at.unwrap_or_else(SystemTime::now) }
    }

    fn walk(&self, folder: &Path, found: &mut Found) {
        if found.folders.len() >= FOLDERS_MAX {
            return;
        }
        found.folders.insert(folder.to_owned());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            match kind.is_dir() {
                true if self.is_source_folder(&path) => self.walk(&path, found),
                false if is_source_file(&path) && found.files.len() < FILES_MAX => {
                    let is_own = |file: &Fingerprint| {
                        self.outputs.iter().any(|output| output.is_of_same_file(file))
                    };
                    if let Some(file) = fingerprint(&path).filter(|file| !is_own(file)) {
                        found.files.insert(path, file);
                    }
                }
                _ => {}
            }
        }
    }

    fn is_source_folder(&self, path: &Path) -> bool {
        let name = name(path);
        let is_top = path.parent() == Some(&self.root);
        let is_hidden = name.starts_with('.') && name != ".cargo";
        let is_written = WRITTEN.contains(&name) || (is_top && WRITTEN_AT_TOP.contains(&name));
        // The folder of a managed Redis has any name.
        !is_hidden && !is_written && !path.join("redis.sock").exists()
    }
}

/// Not what builds write, and not the copies of editors.
fn is_source_file(path: &Path) -> bool {
    let name = name(path);
    let is_copy = name.starts_with(['.', '#']) || name.ends_with('~');
    !WRITTEN_FILES.contains(&name) && !is_copy && !name.ends_with(".log")
}

/// The last part of a path; empty if it is not text.
fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_change_and_what_tools_write_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "a");
        let mut sources = SourceWatch::watch(dir.path());
        for written in [
            "build/handler.wasm",
            "target/x/y",
            "Cargo.lock",
            ".lib.rs.swp",
            "lib.rs~",
            "data/a",
            "dev.log",
        ] {
            write(written, "b");
        }
        assert!(sources.look().files.is_empty());
        write("src/lib.rs", "changed");
        write("src/new/mod.rs", "c");
        assert_eq!(
            sources.look().files,
            [PathBuf::from("src/lib.rs"), PathBuf::from("src/new/mod.rs")]
        );
        fs::remove_file(dir.path().join("src/new/mod.rs")).unwrap();
        assert_eq!(sources.look().files, [PathBuf::from("src/new/mod.rs")]);
        assert!(sources.look().files.is_empty());
    }

    #[test]
    fn a_change_wakes_even_if_the_wait_was_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut sources = SourceWatch::watch(dir.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            fs::write(dir.path().join("handler.ts"), "a").unwrap();
            let until = Instant::now() + Duration::from_secs(60);
            // Given up after the event and before the look.
            while sources.look_at.is_none() {
                assert!(Instant::now() < until, "the system notifies of no change");
                let given_up = tokio::time::timeout(Duration::ZERO, sources.changed()).await;
                assert!(given_up.is_err(), "it waits for quiet");
                tokio::time::sleep(QUIET / 20).await;
            }
            assert_eq!(sources.changed().await.files, [PathBuf::from("handler.ts")]);
        });
    }
}
