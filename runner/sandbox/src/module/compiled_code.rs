//! From compiled code to a module of an engine.
//!
//! A module is mapped from a file, so that its code and the memory that its instances map copy-on-write are held once.
//! Code that is in no file of the cache is written to a sealed file in memory (Linux): of code that it gets as bytes,
//! wasmtime makes a copy, and another one of the memory. Where such a file cannot be created, the module takes more
//! memory and works the same.

use std::fs::File;
use std::io;

use wasmtime::{Engine, Module};

/// The module of code that `precompile_module` has returned: in this process, or in one that it has started.
#[expect(unsafe_code, reason = "wasmtime trusts precompiled code; this daemon has compiled it")]
pub(super) fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: `code` comes from `precompile_module` of this process, or of a process that it has started
    // with its own program and that has sent the code through a pipe that no other process can write to. The
    // file is sealed.
    match file_in_memory(code) {
        Ok(file) => unsafe { Module::deserialize_open_file(engine, file) },
        Err(error) => {
            tracing::debug!(
                "a module takes more memory: its code cannot be a file in memory: {error}"
            );
            unsafe { Module::deserialize(engine, code) }
        }
    }
}

/// The module of a file of the cache.
#[expect(
    unsafe_code,
    reason = "wasmtime trusts precompiled code; the cache contains only code that this user has compiled"
)]
pub(super) fn deserialize_file(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: the cache returns only complete files with output of `precompile_module` that a process of
    // this user has written and no other user can write. Such a file never changes: a new file replaces its
    // name, and the old one stays as it is for those that have it open.
    unsafe { Module::deserialize_open_file(engine, file) }
}

/// A file with this content that has no name and that can never change.
#[cfg(target_os = "linux")]
fn file_in_memory(content: &[u8]) -> io::Result<File> {
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{MemfdFlags, SealFlags};

    use crate::instance::image_content::PAGE;

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("duebox-module", flags)?);
    file.set_len(content.len() as u64)?;
    // What is not written is zero, and takes no memory.
    let is_filled = |page: &[u8]| page.iter().any(|byte| *byte != 0);
    for (index, page) in content.chunks(PAGE).enumerate().filter(|(_, page)| is_filled(page)) {
        file.write_all_at(page, (index * PAGE) as u64)?;
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn file_in_memory(_content: &[u8]) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;
    use crate::instance::image_content::PAGE;

    #[test]
    fn a_file_in_memory_can_never_change() {
        let content = [&[0; 3 * PAGE][..], b"code", &[0; PAGE], b"more"].concat();
        let mut file = file_in_memory(&content).unwrap();
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert!(found == content);
        assert_eq!(file.metadata().unwrap().blocks() * 512, 2 * PAGE as u64);
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.write_all(b"x").is_err());
        assert!(file.set_len(0).is_err());
        let reopened = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let reopened = File::options().write(true).open(reopened).unwrap();
        assert!(reopened.write_at(b"x", 0).is_err());
    }
}
