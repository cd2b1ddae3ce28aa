//! The files that each source handler was read from, as they were then: a change of one is a change of the handler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::regular_file::{Fingerprint, fingerprint};

/// The files of a handler. `None` for one that did not exist.
pub(crate) type Files = BTreeMap<PathBuf, Option<Fingerprint>>;

/// The files of all handlers that this process has read, by the handler's own file.
static READ: Mutex<BTreeMap<PathBuf, Files>> = Mutex::new(BTreeMap::new());

/// Remembers what a handler was read from, also if it was refused.
pub(super) fn remember(handler: &Path, files: Files) {
    READ.lock().insert(handler.to_owned(), files);
}

/// The files that a handler was last read from, as they were then; none for a module.
pub(crate) fn files(handler: &Path) -> Files {
    READ.lock().get(handler).cloned().unwrap_or_default()
}

/// Whether a file has changed since the handler was last read.
pub(crate) fn has_changed(handler: &Path) -> bool {
    files(handler).iter().any(|(file, seen)| fingerprint(file) != *seen)
}
