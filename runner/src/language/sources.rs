//! Reads the files of a handler.
//!
//! Invariant: it reads at most as many files and bytes as a handler may have, and every file that it looked at is
//! remembered as it was before.

use std::io;
use std::path::{Path, PathBuf};

use super::error::SourceError;
use super::watched::Files;
use crate::regular_file::{self, fingerprint};

/// How many files a handler may have.
const FILES_MAX: usize = 2_000;
/// How many files its imports may mean: each is looked for in several places, and watched.
const LOOKED_AT_MAX: usize = 400_000;
/// The longest text of an import, in bytes. A system has no longer paths of files, and they are remembered.
pub(super) const IMPORT_MAX: usize = 1_000;

pub(super) struct Sources {
    /// The files that the handler was, or would have been, read from.
    pub(super) files: Files,
    files_left: usize,
    bytes_max: usize,
    bytes_left: usize,
}

impl Sources {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { files: Files::new(), files_left: FILES_MAX, bytes_max, bytes_left: bytes_max }
    }

    /// Reads a file, which must be text.
    pub(super) fn read(&mut self, path: &Path) -> Result<String, SourceError> {
        if self.files.len() > LOOKED_AT_MAX {
            return Err(SourceError::TooManyImports { max: LOOKED_AT_MAX });
        }
        let left = self.files_left.checked_sub(1);
        self.files_left = left.ok_or(SourceError::TooMany { max: FILES_MAX })?;
        // Before it is read, so that a later change is noticed.
        self.look_at(path);
        let failed = |error| SourceError::Unreadable { path: path.to_owned(), error };
        let bytes = regular_file::read(path, self.bytes_left as u64 + 1).map_err(failed)?;
        let Some(left) = self.bytes_left.checked_sub(bytes.len()) else {
            return Err(SourceError::TooLarge { max: self.bytes_max });
        };
        self.bytes_left = left;
        let not_text = |error| failed(io::Error::new(io::ErrorKind::InvalidData, error));
        String::from_utf8(bytes).map_err(not_text)
    }

    /// Remembers a file, also one that does not exist: its appearance would change the handler.
    pub(super) fn look_at(&mut self, path: &Path) {
        self.files.insert(PathBuf::from(path), fingerprint(path));
    }
}

/// One field of a program: its length in 32 bits, and the text.
pub(super) fn add_field(program: &mut Vec<u8>, text: &str) {
    // The size of all sources is limited far below 4 GiB.
    program.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    program.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(content: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.py");
        std::fs::write(&path, content).unwrap();
        (folder, path)
    }

    #[test]
    fn files_are_limited_in_number_and_in_bytes_together() {
        let (_folder, path) = folder_with("12345");
        let mut sources = Sources::new(14);
        for _ in 0..2 {
            assert_eq!(sources.read(&path).unwrap(), "12345");
        }
        assert!(matches!(sources.read(&path), Err(SourceError::TooLarge { max: 14 })));
        let mut sources = Sources::new(1 << 20);
        for _ in 0..FILES_MAX {
            sources.read(&path).unwrap();
        }
        assert!(matches!(sources.read(&path), Err(SourceError::TooMany { max: FILES_MAX })));
    }

    #[test]
    fn the_places_where_imports_are_looked_for_are_limited() {
        let (_folder, path) = folder_with("");
        let mut sources = Sources::new(1 << 20);
        sources.files = (0..=LOOKED_AT_MAX).map(|at| (at.to_string().into(), None)).collect();
        let refused = sources.read(&path);
        assert!(matches!(refused, Err(SourceError::TooManyImports { max: LOOKED_AT_MAX })));
    }
}
