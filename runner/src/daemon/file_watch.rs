//! Watching the manifest and the modules for changes.
//!
//! Directories are watched and not files, because files are replaced: by rename, or by the swap of a
//! symlink far from the name in the manifest (Kubernetes' ConfigMaps). An event says only that it is
//! worth looking; whoever looks compares contents. Since notification may miss a change (network file
//! systems, a link in a chain that is not watched), fingerprints are compared every two seconds too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tracing::debug;

use crate::deploy::module_file::{Fingerprint, fingerprint};

/// How long files must have been quiet: whoever writes one is done by then.
const QUIET: Duration = Duration::from_millis(50);
/// How often a storm of events is waited out before looking all the same.
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
    /// A watch over nothing yet.
    pub fn new() -> Self {
        let event = Arc::new(Notify::new());
        let told = Arc::clone(&event);
        let watcher = notify::recommended_watcher(move |found: notify::Result<notify::Event>| {
            // Reading a file is an event too; looking would then lead to looking.
            if !found.is_ok_and(|event| event.kind.is_access()) {
                told.notify_one();
            }
        });
        if let Err(error) = &watcher {
            debug!(%error, "no file notification here; files are compared every two seconds");
        }
        let files = Mutex::default();
        Self { watcher: watcher.ok(), directories: BTreeSet::new(), files, event }
    }

    /// Watches these files from now on, and no others. The fingerprints are those that have been acted
    /// on: a file that has another by now has changed.
    pub fn follow(&mut self, files: &BTreeMap<PathBuf, Option<Fingerprint>>) {
        let wanted: BTreeSet<PathBuf> = files.keys().flat_map(|file| directories(file)).collect();
        if let Some(watcher) = &mut self.watcher {
            for gone in self.directories.difference(&wanted) {
                // A directory that was removed is watched no more already.
                drop(watcher.unwatch(gone));
            }
            // Watched anew even if it was before: a directory of this name may be another by now.
            for directory in &wanted {
                if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                    debug!(%error, directory = %directory.display(), "cannot be watched");
                }
            }
        }
        self.directories = wanted;
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files.clone();
    }

    /// Waits until something may have changed and has been quiet since.
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
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().any(|(file, seen)| fingerprint(file) != *seen)
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// The directories in which a change can give a path another content: its own, and that of every
/// link on the way to the file.
fn directories(file: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut found = vec![parent(file)];
    let mut at = file.to_owned();
    // As many links as Linux follows.
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
