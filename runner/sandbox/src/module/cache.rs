//! The cache of compiled modules on disk, so that a restart compiles nothing again.
//!
//! Wasmtime trusts compiled code, so the cache uses no file that another user could have written. The
//! directory and each file must belong to this user and must not be writable by others. This is checked on
//! the open file. Each file also ends with a hash of its content. A file that fails a check is compiled
//! again.

use std::fs::{DirBuilder, File};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use xxhash_rust::xxh3::Xxh3Default;

use crate::digest::Digest;
use crate::error::{CacheDirError, SandboxError};

/// Bytes of all files together. Above it, the least recently used files are removed.
const BYTES_MAX: u64 = 1 << 30;
/// The begin of the trailer of each file. The trailer detects a damaged file; owner and mode prevent a
/// forged one.
const MAGIC: &[u8; 8] = b"duebox-1";
/// The length of the trailer, in bytes: `MAGIC` and a 128-bit hash of the code.
const TRAILER: usize = MAGIC.len() + 16;
/// Bytes that are read in one call.
const CHUNK: usize = 256 << 10;
/// The prefix of a file that is being written.
const UNFINISHED: &str = "tmp-";
/// Unfinished files older than this are removed, in seconds.
const UNFINISHED_MAX_S: i64 = 3_600;

/// A private directory of compiled modules.
pub(crate) struct ModuleCache {
    dir: OwnedFd,
    path: PathBuf,
    bytes_max: u64,
    written: AtomicU64,
}

/// The key of a compiled module: its file, its engine, and its form. The key is also the file's name.
pub(crate) struct CacheKey(String);

impl CacheKey {
    /// `form` distinguishes compiled modules of the same file and engine.
    pub(crate) fn new(engine: &Engine, module: Digest, form: &str) -> Self {
        let mut hasher = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        (env!("CARGO_PKG_VERSION"), module, form).hash(&mut hasher);
        Self(HEXLOWER.encode(&hasher.0.finalize()))
    }
}

/// SHA-256 as a [`Hasher`]. Two engines must never share a key by accident.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

/// Why a file of the cache is not used.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error(transparent)]
    Unsafe(#[from] CacheDirError),
    #[error("it is not a file of the cache")]
    Foreign,
    #[error("it is truncated")]
    Truncated,
    #[error("it is damaged")]
    Damaged,
}

impl ModuleCache {
    /// Opens the directory. Creates it with mode 0700 if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, SandboxError> {
        let dir = open_dir(path)
            .map_err(|reason| SandboxError::Cache { path: path.to_owned(), reason })?;
        let (path, written) = (path.to_owned(), AtomicU64::new(0));
        Ok(Self { dir, path, bytes_max: BYTES_MAX, written })
    }

    /// The file of a key, if there is one and it passes all checks. The code begins at its start. The file
    /// never changes.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &*key.0, flags, Mode::empty()).ok()?;
        match self.check(File::from(file)) {
            Ok(file) => Some(file),
            Err(error) => {
                let file = self.path.join(&key.0);
                tracing::warn!(
                    file = %file.display(),
                    "a compiled module in the cache is not used: {error}; the module is compiled again"
                );
                None
            }
        }
    }

    fn check(&self, mut file: File) -> Result<File, FileError> {
        let stat = rustix::fs::fstat(&file).map_err(CacheDirError::from)?;
        check_private(&stat)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > self.bytes_max {
            return Err(FileError::Foreign);
        }
        let code = size.checked_sub(TRAILER as u64).ok_or(FileError::Truncated)?;
        if !has_valid_trailer(&mut file, code).map_err(CacheDirError::from)? {
            return Err(FileError::Damaged);
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        if let Err(error) = rustix::fs::futimens(&file, &times) {
            tracing::debug!("the cache cannot record the use of a module: {error}");
        }
        Ok(file)
    }

    /// Stores compiled code, and removes the least recently used files if there is too much. A failure costs
    /// only time at the next start.
    pub(crate) fn insert(&self, key: &CacheKey, code: &[u8]) {
        if code.len() as u64 > self.bytes_max / 4 {
            return;
        }
        if let Err(error) = self.write(key, code).and_then(|()| self.prune()) {
            tracing::warn!(
                cache = %self.path.display(),
                "the cache cannot store a compiled module: {error}; the module is compiled again at the next start"
            );
        }
    }

    fn write(&self, key: &CacheKey, code: &[u8]) -> io::Result<()> {
        let count = self.written.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{UNFINISHED}{}-{count}-{}", std::process::id(), &key.0[..8]);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.dir, &*unfinished, flags, mode)?;
        let mut file = File::from(file);
        let mut hash = Xxh3Default::new();
        hash.update(code);
        let written = file.write_all(code).and_then(|()| file.write_all(&trailer(&hash)));
        let renamed = written.and_then(|()| {
            rustix::fs::renameat(&self.dir, &*unfinished, &self.dir, &*key.0)?;
            Ok(())
        });
        if renamed.is_err() {
            self.remove(&unfinished);
        }
        renamed
    }

    fn prune(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let (mut files, mut bytes) = (Vec::new(), 0_u64);
        for entry in Dir::read_from(&self.dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Ok(stat) = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue; // Another process has removed it.
            };
            let used_at = (stat.st_mtime, stat.st_mtime_nsec);
            if name.starts_with(UNFINISHED) {
                if now.saturating_sub(used_at.0) > UNFINISHED_MAX_S {
                    self.remove(name);
                }
            } else if name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                bytes = bytes.saturating_add(size);
                files.push((used_at, name.to_owned(), size));
            }
        }
        files.sort();
        for (_, name, size) in files {
            if bytes <= self.bytes_max {
                break;
            }
            self.remove(&name);
            bytes = bytes.saturating_sub(size);
        }
        Ok(())
    }

    fn remove(&self, name: &str) {
        if let Err(error) = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            tracing::debug!("the cache cannot remove {name}: {error}");
        }
    }
}

/// The last bytes that were stored in a file of the cache.
pub(crate) fn last_bytes<const COUNT: usize>(file: &File) -> io::Result<[u8; COUNT]> {
    let stored = file.metadata()?.len().saturating_sub(TRAILER as u64);
    let mut bytes = [0; COUNT];
    file.read_exact_at(&mut bytes, stored.saturating_sub(COUNT as u64))?;
    Ok(bytes)
}

fn open_dir(path: &Path) -> Result<OwnedFd, CacheDirError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    check_private(&rustix::fs::fstat(&dir)?)?;
    Ok(dir)
}

/// Whether a file has `code` bytes of code and the trailer that belongs to them.
fn has_valid_trailer(file: &mut File, code: u64) -> io::Result<bool> {
    let (mut hash, mut chunk) = (Xxh3Default::new(), vec![0; CHUNK]);
    let mut left = code;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let count = file.read(&mut chunk[..most])?;
        if count == 0 {
            return Ok(false);
        }
        hash.update(&chunk[..count]);
        left -= count as u64;
    }
    let mut found = [0; TRAILER];
    file.read_exact(&mut found)?;
    Ok(found == trailer(&hash))
}

fn trailer(hash: &Xxh3Default) -> [u8; TRAILER] {
    let mut trailer = [0; TRAILER];
    trailer[..MAGIC.len()].copy_from_slice(MAGIC);
    trailer[MAGIC.len()..].copy_from_slice(&hash.digest128().to_le_bytes());
    trailer
}

/// Checks that an open file belongs to this user, and that other users cannot write to it.
fn check_private(stat: &Stat) -> Result<(), CacheDirError> {
    let (owner, user) = (stat.st_uid, rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(CacheDirError::Owner { owner, user });
    }
    #[allow(clippy::useless_conversion, reason = "a mode has 16 bits on macOS")]
    let mode = u32::from(stat.st_mode) & 0o7777;
    if mode & 0o022 != 0 {
        return Err(CacheDirError::Writable { mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::{Seek as _, SeekFrom};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::Duration;

    use super::*;

    fn key(number: u8) -> CacheKey {
        CacheKey(format!("{number:064x}"))
    }

    fn found(cache: &ModuleCache, number: u8) -> Vec<u8> {
        let mut file = cache.find(&key(number)).unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_module_is_found_only_by_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cache");
        let cache = ModuleCache::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        cache.insert(&key(1), b"code");
        assert!(found(&cache, 1).starts_with(b"code"));
        assert!(cache.find(&key(2)).is_none());
        assert_eq!(names(&path), [key(1).0]);
        assert!(found(&ModuleCache::open(&path).unwrap(), 1).starts_with(b"code"));
        assert_eq!(&last_bytes(&cache.find(&key(1)).unwrap()).unwrap(), b"de");
    }

    #[test]
    fn engines_modules_and_forms_have_different_keys() {
        let plain = Engine::new(&crate::engine::on_demand(false)).unwrap();
        let metered = Engine::new(&crate::engine::on_demand(true)).unwrap();
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let mut keys = [
            CacheKey::new(&plain, one, "plain").0,
            CacheKey::new(&metered, one, "plain").0,
            CacheKey::new(&plain, other, "plain").0,
            CacheKey::new(&plain, one, "snapshot").0,
        ];
        assert_eq!(CacheKey::new(&plain, one, "plain").0, keys[0]);
        keys.sort();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o770, 0o707, 0o777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let refused = ModuleCache::open(folder.path()).err().unwrap().to_string();
            assert!(refused.contains("can be written by others"), "{refused}");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(ModuleCache::open(folder.path()).is_ok());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(ModuleCache::open(&file).is_err());
    }

    #[test]
    fn a_damaged_or_unsafe_file_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ModuleCache::open(folder.path()).unwrap();
        let file = folder.path().join(&key(1).0);
        cache.insert(&key(1), b"code");
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file, &damaged).unwrap();
            assert!(cache.find(&key(1)).is_none(), "byte {at}");
            fs::write(&file, &whole[..at]).unwrap();
            assert!(cache.find(&key(1)).is_none(), "cut at {at}");
        }
        fs::write(&file, &whole).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
        assert!(cache.find(&key(1)).is_none());
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert!(cache.find(&key(1)).is_some());
        symlink(&file, folder.path().join(&key(2).0)).unwrap();
        assert!(cache.find(&key(2)).is_none());
        fs::create_dir(folder.path().join(&key(3).0)).unwrap();
        assert!(cache.find(&key(3)).is_none());
    }

    #[test]
    fn the_least_recently_used_file_is_removed_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = ModuleCache::open(folder.path()).unwrap();
        cache.bytes_max = 1_000;
        let old = SystemTime::now() - Duration::from_secs(7_200);
        for number in 1..=3 {
            cache.insert(&key(number), &[number; 240]);
            let file = File::options().write(true).open(folder.path().join(&key(number).0));
            file.unwrap().set_modified(old + Duration::from_secs(number.into())).unwrap();
        }
        let unfinished = folder.path().join("tmp-1-1");
        File::create(&unfinished).unwrap().set_modified(old).unwrap();
        fs::write(folder.path().join("README"), "not a file of the cache").unwrap();
        assert!(cache.find(&key(1)).is_some());
        cache.insert(&key(4), &[4; 240]);
        assert_eq!(names(folder.path()), [&key(1).0, &key(3).0, &key(4).0, "README"]);
        cache.insert(&key(5), &[5; 300]);
        assert!(cache.find(&key(5)).is_none(), "larger than a quarter of the cache");
    }
}
