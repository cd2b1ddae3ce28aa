//! Opens the files that the configuration names, and notices changes of them. Only regular files are read: a named pipe in place of one
//! would block its reader, possibly without an end.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file for reading. It never waits for another process.
///
/// # Errors
/// The error of the system, or that the path leads to something else.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads at most `bytes_max` bytes of a regular file.
///
/// # Errors
/// The error of the system, or that the path leads to something else.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Tells versions of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

impl Fingerprint {
    /// Whether both are of the same file, whatever it contains.
    pub(crate) fn is_of_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The fingerprint of the file that a path leads to, through all links; `None` without such a file.
pub fn fingerprint(path: &Path) -> Option<Fingerprint> {
    let file = std::fs::metadata(path).ok()?;
    let modified_ns = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Some(Fingerprint { device: file.dev(), inode: file.ino(), bytes: file.len(), modified_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_a_pipe_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
        std::fs::write(&file, "content").unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(read(&file, 4).unwrap(), b"cont");
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let error = read(path, 4).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file", "{}", path.display());
        }
    }
}
