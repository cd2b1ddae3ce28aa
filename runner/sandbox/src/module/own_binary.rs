//! The binary that this process runs: its fingerprint tells the snapshots of two builds apart.

use std::fs::File;
use std::io::{self, Read};
use std::sync::OnceLock;

use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that are read in one call.
const CHUNK: usize = 256 << 10;

/// A hash of the binary's file, read once. `None` if the file cannot be read.
pub(super) fn fingerprint() -> Option<&'static str> {
    static HASH: OnceLock<Option<String>> = OnceLock::new();
    let hash = HASH.get_or_init(|| hash(own_file().ok()?).ok());
    hash.as_deref()
}

fn own_file() -> io::Result<File> {
    // On Linux the link leads to the binary that runs, also after its file was replaced.
    File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))
}

fn hash(mut file: impl Read) -> io::Result<String> {
    let (mut hash, mut chunk) = (Xxh3Default::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(format!("{:032x}", hash.digest128())),
            count => hash.update(&chunk[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_with_other_code_have_other_fingerprints() {
        let own = fingerprint().unwrap();
        assert_eq!(hash(own_file().unwrap()).unwrap(), own);
        let mut other = Vec::new();
        own_file().unwrap().read_to_end(&mut other).unwrap();
        let last = other.len() - 1;
        other[last] ^= 1;
        assert_ne!(hash(&*other).unwrap(), own);
    }
}
