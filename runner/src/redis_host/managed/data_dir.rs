//! The data directory of the managed Redis: its lock and its files.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::RedisServerError;

/// The longest path of a Unix socket on Linux, in bytes, without the final zero.
pub(super) const SOCKET_PATH_MAX: usize = 107;
/// The size in bytes above which the log is rotated when a server starts; one older log is kept.
const LOG_LEN_MAX: u64 = 8 << 20;
const TAIL_LEN: u64 = 4 << 10;
const TAIL_LINES: usize = 12;

/// File names in the directory, which is also the server's working directory.
pub(super) const SOCKET: &str = "redis.sock";
pub(super) const LOG: &str = "redis.log";

/// A directory that this process locks while the value lives.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    lock: File,
}

impl DataDir {
    pub(super) fn open(dir: &Path) -> Result<Self, RedisServerError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| RedisServerError::Dir { path, source }
        };
        let path = std::path::absolute(dir).map_err(at(dir))?;
        let socket = path.join(SOCKET);
        let len = socket.as_os_str().len();
        if len > SOCKET_PATH_MAX {
            return Err(RedisServerError::SocketPath { path: socket, len });
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(at(&path))?;
        warn_if_open(&path);
        let lock_path = path.join("duebox.lock");
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(at(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, lock }),
            Err(TryLockError::WouldBlock) => Err(RedisServerError::InUse { dir: path }),
            Err(TryLockError::Error(source)) => Err(at(&lock_path)(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// The socket as a URL.
    pub(super) fn url(&self) -> String {
        url_of(&self.socket())
    }

    /// Opens the log for output of the server before it has read its settings.
    pub(super) fn open_log(&self) -> Result<File, RedisServerError> {
        let path = self.log();
        let open = || -> io::Result<File> {
            if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_LEN_MAX) {
                fs::rename(&path, self.path.join("redis.log.1"))?;
            }
            File::options().create(true).append(true).open(&path)
        };
        open().map_err(|source| RedisServerError::Dir { path: path.clone(), source })
    }

    /// The last lines of the log; empty if it cannot be read.
    pub(super) fn log_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(self.log())?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(TAIL_LEN)))?;
            let mut bytes = Vec::new();
            file.take(TAIL_LEN).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for DataDir {
    /// Unlocks explicitly, because a process that is being forked may hold a copy of the file.
    fn drop(&mut self) {
        if let Err(error) = self.lock.unlock() {
            tracing::warn!("cannot unlock {}: {error}", self.path.display());
        }
    }
}

/// Warns if other users can read the directory, which contains payloads.
fn warn_if_open(path: &Path) {
    let mode = fs::metadata(path).map_or(0, |found| found.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        let path = path.display();
        tracing::warn!(
            "other users can read {path} (mode {mode:o}), where the managed Redis stores every payload; run: chmod 700 {path}"
        );
    }
}

/// The URL of the server in `dir` for the redis crate: `redis+unix:///…/redis.sock`.
///
/// # Errors
/// The system error if there is no socket or the directory cannot be read.
pub fn socket_url(dir: &Path) -> io::Result<String> {
    let socket = std::path::absolute(dir)?.join(SOCKET);
    fs::metadata(&socket)?;
    Ok(url_of(&socket))
}

/// A socket path as a URL, with reserved bytes percent-encoded.
fn url_of(socket: &Path) -> String {
    let mut url = "redis+unix://".to_owned();
    for byte in socket.as_os_str().as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                url.push(char::from(*byte));
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&root.path().join("a b%#?ü")).unwrap();
        let info = redis::IntoConnectionInfo::into_connection_info(dir.url()).unwrap();
        assert_eq!(info.addr(), &redis::ConnectionAddr::Unix(dir.socket()));
    }

    #[test]
    fn the_tail_is_the_end_of_the_log() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap();
        assert_eq!(dir.log_tail(), "");
        let lines: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
        fs::write(dir.log(), lines).unwrap();
        assert_eq!(dir.log_tail().lines().count(), TAIL_LINES);
        assert!(dir.log_tail().ends_with("line 4999"));
    }
}
