//! `path_open` of WASI, restricted to regular files and directories.
//!
//! Opening a named pipe blocks a thread until another process opens its other end, and opening a device may
//! have any effect. Whatever a granted directory contains, only files that have an end are opened.

use wasmtime::{AsContextMut, Caller, Linker};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::types::{Errno, Filetype};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as preview1, WasiSnapshotPreview1 as _};
use wiggle::GuestMemory;

use super::{HasWasi, NAMESPACE};
use crate::imports::call;

const NAME: &str = "path_open";

/// The longest path of the operating system, in bytes. The function of wasmtime-wasi refuses a longer one.
const PATH_MAX: usize = 4096;

/// Bytes of a `filestat`.
const FILESTAT: usize = 64;
/// The offset of the file type in a `filestat`.
const FILETYPE_AT: usize = 16;

/// Directory, lookup flags, path pointer, path length, open flags, rights, inherited rights, descriptor
/// flags, and the address of the new descriptor.
type Arguments = (i32, i32, i32, i32, i32, i64, i64, i32, i32);

/// Replaces the function of wasmtime-wasi.
pub(super) fn link<T: HasWasi>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAMESPACE,
        NAME,
        |mut caller: Caller<'_, T>, arguments: Arguments| {
            Box::new(async move { open(&mut caller, arguments).await })
        },
    )?;
    Ok(())
}

async fn open<T: HasWasi>(
    caller: &mut Caller<'_, T>,
    arguments: Arguments,
) -> wasmtime::Result<i32> {
    let bytes_max = caller.as_context_mut().hostcall_fuel();
    let view = call::view_again(caller, NAME)?;
    let wasi = view.guest.wasi();
    wasi.set_hostcall_fuel(bytes_max);
    let (dir, lookup, path, length, flags, rights, inherited, descriptor_flags, at) = arguments;
    if is_special(wasi, dir, lookup, path_of(view.bytes, path, length)).await {
        return Ok(Errno::Acces as i32);
    }
    let mut memory = GuestMemory::Unshared(view.bytes);
    preview1::path_open(
        wasi,
        &mut memory,
        dir,
        lookup,
        path,
        length,
        flags,
        rights,
        inherited,
        descriptor_flags,
        at,
    )
    .await
}

/// The path of a call, or an empty path if the range is invalid or too long.
fn path_of(memory: &[u8], pointer: i32, length: i32) -> &[u8] {
    let (start, length) = (pointer.cast_unsigned() as usize, length.cast_unsigned() as usize);
    let path = start.checked_add(length).and_then(|end| memory.get(start..end));
    path.filter(|path| path.len() <= PATH_MAX).unwrap_or_default()
}

/// Whether a path exists and is neither a file nor a directory. The lookup stays inside the directory, as
/// for `path_open` itself. A path that cannot be looked up cannot be opened either.
async fn is_special(wasi: &mut WasiP1Ctx, dir: i32, lookup: i32, path: &[u8]) -> bool {
    // A separate memory of at most 4,160 bytes, with the `filestat` first and the path after it.
    let mut memory = vec![0; FILESTAT];
    memory.extend_from_slice(path);
    let (at, length) = (FILESTAT as i32, path.len() as i32);
    let mut view = GuestMemory::Unshared(&mut memory);
    let errno = preview1::path_filestat_get(wasi, &mut view, dir, lookup, at, length, 0).await;
    let kind = Filetype::try_from(memory[FILETYPE_AT]);
    let is_plain =
        matches!(kind, Ok(Filetype::RegularFile | Filetype::Directory | Filetype::SymbolicLink));
    matches!(errno, Ok(0)) && !is_plain
}
