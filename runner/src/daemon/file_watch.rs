//! Watches the manifest and the modules for changes.
//!
//! It watches directories, because files are replaced: by rename, or by a symlink swap elsewhere in the
//! path (Kubernetes ConfigMaps). An event only triggers a look; the caller compares contents. Notification
//! can miss changes, for example on network file systems, so fingerprints are also compared every 2 s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::debug;

use crate::deploy::module_file::{Fingerprint, fingerprint};

/// How long files must be quiet, so that their writer has finished.
const QUIET: Duration = Duration::from_millis(50);
/// After so many waits it looks even if events go on.
const QUIET_WAITS_MAX: usize = 10;
/// How often fingerprints are compared.
const COMPARE_EVERY: Duration = Duration::from_secs(2);

/// A watch over files.
pub struct Watch {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
    files: Mutex<BTreeMap<PathBuf, Option<Fingerprint>>>,
    event: Arc<Notify>,
}

impl Watch {
    /// Creates a watch over no file.
    pub fn new() -> Self {
        let event = Arc::new(Notify::new());
        let notified = Arc::clone(&event);
        let watcher = notify::recommended_watcher(move |found: notify::Result<notify::Event>| {
            // Reads cause events too; reacting to them would loop.
            if !found.is_ok_and(|event| event.kind.is_access()) {
                notified.notify_one();
            }
        });
        if let Err(error) = &watcher {
            debug!(%error, "no file notification here; files are compared every two seconds");
        }
        let files = Mutex::default();
        Self { watcher: watcher.ok(), directories: BTreeSet::new(), files, event }
    }

    /// Watches these files from now on, and no others. A file whose fingerprint differs from the given one
    /// counts as changed.
    pub fn follow(&mut self, files: &BTreeMap<PathBuf, Option<Fingerprint>>) {
        let wanted: BTreeSet<PathBuf> = files.keys().flat_map(|file| directories(file)).collect();
        if let Some(watcher) = &mut self.watcher {
            for gone in self.directories.difference(&wanted) {
                // A removed directory is not watched any more.
                drop(watcher.unwatch(gone));
            }
            // Watch known directories again too: another one may have the same name now.
            for directory in &wanted {
                if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                    debug!(%error, directory = %directory.display(), "cannot be watched");
                }
            }
        }
        self.directories = wanted;
        *self.files.lock() = files.clone();
    }

    /// Waits for a possible change, and then for quiet.
    pub async fn changed(&self) {
        loop {
            tokio::select! {
                () = self.event.notified() => break,
                () = tokio::time::sleep(COMPARE_EVERY) => if self.differs() { break },
            }
        }
        for _ in 0..QUIET_WAITS_MAX {
            if tokio::time::timeout(QUIET, self.event.notified()).await.is_err() {
                break;
            }
        }
    }

    fn differs(&self) -> bool {
        let files = self.files.lock();
        files.iter().any(|(file, seen)| fingerprint(file) != *seen)
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// The directories in which a change can affect a path: its own, and those of every link on the way to the
/// file.
fn directories(file: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut found = vec![parent(file)];
    let mut at = file.to_owned();
    // The limit of links in Linux.
    for _ in 0..40 {
        let Ok(target) = std::fs::read_link(&at) else { break };
        at = parent(&at).join(target);
        found.push(parent(&at));
    }
    if let Ok(real) = file.canonicalize() {
        found.push(parent(&real));
    }
    found
}
