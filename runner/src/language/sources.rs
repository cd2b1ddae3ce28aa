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
