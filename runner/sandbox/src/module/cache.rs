//! Compiled modules on disk, so that a restart compiles nothing twice. Wasmtime trusts what it is
//! given as compiled code, so nothing is taken that another could have written: the directory and
//! each file must be ours and writable for nobody else, which is looked at on the open file itself,
//! and a file carries a hash of its content. Whatever does not hold is compiled anew.

use std::fs::{DirBuilder, File};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use xxhash_rust::xxh3::Xxh3Default;

use crate::digest::Digest;
use crate::module::error::SandboxError;

/// Bytes of all files together; above it those that were used longest ago go.
const BYTES_MAX: u64 = 1 << 30;
/// What stands behind the code in every file: these bytes and a hash of the code. It tells a whole file
/// from a damaged one; that nobody has forged it, owner and mode say.
const MAGIC: &[u8; 8] = b"duebox-1";
const TRAILER: usize = MAGIC.len() + 16;
/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;
/// How a file is named while it is written, and after how many seconds nobody writes it any more.
const UNFINISHED: &str = "tmp-";
const UNFINISHED_MAX_S: i64 = 3_600;

/// A private directory of compiled modules.
pub(crate) struct Cache {
    folder: OwnedFd,
    path: PathBuf,
    bytes_max: u64,
    written: AtomicU64,
}

/// The name of one compiled module: what it was compiled from, for which engine, and how.
pub(crate) struct Key(String);

impl Key {
    /// `form` tells apart what is made of the same file for the same engine.
    pub(crate) fn new(engine: &Engine, module: Digest, form: &str) -> Self {
        let mut hasher = Sha(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        (env!("CARGO_PKG_VERSION"), module, form).hash(&mut hasher);
        Self(hasher.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// SHA-256 where Rust's hashing is wanted: two engines must never share a key by chance.
struct Sha(Sha256);

impl Hasher for Sha {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

impl Cache {
    /// Opens the directory, and makes it (mode 0700) if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, SandboxError> {
        let refused = |why: String| SandboxError::Cache { path: path.to_owned(), why };
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| refused(error.to_string()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty());
        let folder = folder.map_err(|error| refused(error.to_string()))?;
        let stat = rustix::fs::fstat(&folder).map_err(|error| refused(error.to_string()))?;
        private(&stat).map_err(|why| refused(format!("the directory {why}")))?;
        let (path, written) = (path.to_owned(), AtomicU64::new(0));
        Ok(Self { folder, path, bytes_max: BYTES_MAX, written })
    }

    /// The file of compiled code under this key, if it is there, is ours and is whole. Code stands at its
    /// start; nobody writes it any more.
    pub(crate) fn find(&self, key: &Key) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &*key.0, flags, Mode::empty()).ok()?;
        match self.checked(File::from(file)) {
            Ok(file) => Some(file),
            Err(why) => {
                let file = self.path.join(&key.0);
                tracing::warn!(
                    file = %file.display(),
                    "a compiled module in the cache is not used: it {why}; it is compiled anew"
                );
                None
            }
        }
    }

    fn checked(&self, mut file: File) -> Result<File, String> {
        let failed = |error: io::Error| format!("cannot be read ({error})");
        let stat = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
        private(&stat)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > self.bytes_max {
            return Err("is no file of the cache".to_owned());
        }
        let code = size.checked_sub(TRAILER as u64).ok_or("is cut off")?;
        if !is_whole(&mut file, code).map_err(failed)? {
            return Err("is damaged".to_owned());
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        if let Err(error) = rustix::fs::futimens(&file, &times) {
            tracing::debug!("the cache cannot note that a module was used: {error}");
        }
        Ok(file)
    }

    /// Keeps compiled code, and drops what was used longest ago where there is too much. A failure is
    /// no loss but that of time.
    pub(crate) fn keep(&self, key: &Key, code: &[u8]) {
        if code.len() as u64 > self.bytes_max / 4 {
            return;
        }
        if let Err(error) = self.write(key, code).and_then(|()| self.prune()) {
            tracing::warn!(
                cache = %self.path.display(),
                "the cache does not keep a compiled module: {error}; it is compiled again at the next start"
            );
        }
    }

    fn write(&self, key: &Key, code: &[u8]) -> io::Result<()> {
        let count = self.written.fetch_add(1, Ordering::Relaxed);
        let unfinished = format!("{UNFINISHED}{}-{count}-{}", std::process::id(), &key.0[..8]);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.folder, &*unfinished, flags, mode)?;
        let mut file = File::from(file);
        let mut hash = Xxh3Default::new();
        hash.update(code);
        let written = file.write_all(code).and_then(|()| file.write_all(&trailer(&hash)));
        let named = written.and_then(|()| {
            rustix::fs::renameat(&self.folder, &*unfinished, &self.folder, &*key.0)?;
            Ok(())
        });
        if named.is_err() {
            self.remove(&unfinished);
        }
        named
    }

    fn prune(&self) -> io::Result<()> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let (mut files, mut bytes) = (Vec::new(), 0_u64);
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Ok(stat) = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
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
        if let Err(error) = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty()) {
            tracing::debug!("the cache cannot remove {name}: {error}");
        }
    }
}

/// Whether a file is `code` bytes and what belongs behind them.
fn is_whole(file: &mut File, code: u64) -> io::Result<bool> {
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

/// Checks that what was opened belongs to us, and that nobody else can write it.
fn private(stat: &Stat) -> Result<(), String> {
    let (owner, us) = (stat.st_uid, rustix::process::geteuid().as_raw());
    if owner != us {
        return Err(format!("belongs to user {owner}, not to user {us}, who runs this"));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o022 != 0 {
        return Err(format!("can be written by others (mode {mode:o})"));
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

    fn key(number: u8) -> Key {
        Key(format!("{number:064x}"))
    }

    fn found(cache: &Cache, number: u8) -> Vec<u8> {
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
    fn what_is_kept_is_found_by_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cache");
        let cache = Cache::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        cache.keep(&key(1), b"code");
        assert!(found(&cache, 1).starts_with(b"code"));
        assert!(cache.find(&key(2)).is_none());
        assert_eq!(names(&path), [key(1).0]);
        assert!(found(&Cache::open(&path).unwrap(), 1).starts_with(b"code"));
    }

    #[test]
    fn engines_modules_and_forms_have_keys_of_their_own() {
        let plain = Engine::new(&crate::engine::on_demand(false)).unwrap();
        let metered = Engine::new(&crate::engine::on_demand(true)).unwrap();
        let (one, other) = (Digest::of(b"one"), Digest::of(b"other"));
        let mut keys = [
            Key::new(&plain, one, "plain").0,
            Key::new(&metered, one, "plain").0,
            Key::new(&plain, other, "plain").0,
            Key::new(&plain, one, "snapshot").0,
        ];
        assert_eq!(Key::new(&plain, one, "plain").0, keys[0]);
        keys.sort();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [0o770, 0o707, 0o777] {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let refused = Cache::open(folder.path()).err().unwrap().to_string();
            assert!(refused.contains("can be written by others"), "{refused}");
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(Cache::open(folder.path()).is_ok());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Cache::open(&file).is_err());
    }

    #[test]
    fn what_is_damaged_or_not_private_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let file = folder.path().join(&key(1).0);
        cache.keep(&key(1), b"code");
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
    fn what_was_used_longest_ago_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = Cache::open(folder.path()).unwrap();
        cache.bytes_max = 1_000;
        let old = SystemTime::now() - Duration::from_secs(7_200);
        for number in 1..=3 {
            cache.keep(&key(number), &[number; 240]);
            let file = File::options().write(true).open(folder.path().join(&key(number).0));
            file.unwrap().set_modified(old + Duration::from_secs(number.into())).unwrap();
        }
        let unfinished = folder.path().join("tmp-1-1");
        File::create(&unfinished).unwrap().set_modified(old).unwrap();
        fs::write(folder.path().join("README"), "not ours to remove").unwrap();
        assert!(cache.find(&key(1)).is_some());
        cache.keep(&key(4), &[4; 240]);
        assert_eq!(names(folder.path()), [&key(1).0, &key(3).0, &key(4).0, "README"]);
        cache.keep(&key(5), &[5; 300]);
        assert!(cache.find(&key(5)).is_none(), "larger than a quarter of the cache");
    }
}
