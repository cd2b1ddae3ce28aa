//! `path_open` of WASI, for files and directories alone. Who opens a pipe waits for its other end, without an
//! end of its own, and holds a thread; a device may do anything. Whatever stands in a granted directory,
//! only what can be read to an end is opened.

use wasmtime::{AsContextMut, Caller, Linker};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p1::types::{Errno, Filetype};
use wasmtime_wasi::p1::wasi_snapshot_preview1::{self as preview1, WasiSnapshotPreview1 as _};
use wiggle::GuestMemory;

use super::NAMESPACE;
use crate::imports::call as memory;
use crate::instance::guest::Guest;

const NAME: &str = "path_open";

/// Bytes of the longest path that the system takes. The stock call refuses a longer one by itself.
const PATH_MAX: usize = 4096;

/// Bytes of a `filestat`, and where the type stands in it.
const FILESTAT: usize = 64;
const FILETYPE_AT: usize = 16;

/// Directory, lookup flags, pointer and length of the path, flags, rights, rights to hand on, flags of the
/// descriptor, and where it is written.
type Call = (i32, i32, i32, i32, i32, i64, i64, i32, i32);

/// Links it in the stock one's place.
pub(super) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, NAME, |mut caller: Caller<'_, Guest>, call: Call| {
        Box::new(async move { open(&mut caller, call).await })
    })?;
    Ok(())
}

async fn open(caller: &mut Caller<'_, Guest>, call: Call) -> wasmtime::Result<i32> {
    let bytes_max = caller.as_context_mut().hostcall_fuel();
    let view = memory::look(caller, NAME)?;
    let wasi = view.guest.wasi();
    wasi.set_hostcall_fuel(bytes_max);
    let (dir, lookup, path, length, flags, rights, inherited, descriptor_flags, at) = call;
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

/// The path of a call, empty if there is none that could be opened.
fn path_of(memory: &[u8], pointer: i32, length: i32) -> &[u8] {
    let (start, length) = (pointer.cast_unsigned() as usize, length.cast_unsigned() as usize);
    let path = start.checked_add(length).and_then(|end| memory.get(start..end));
    path.filter(|path| path.len() <= PATH_MAX).unwrap_or_default()
}

/// Whether a path leads to what is neither file nor directory. It is looked up within the directory, like
/// one that is opened; what cannot be looked up, cannot be opened either.
async fn is_special(wasi: &mut WasiP1Ctx, dir: i32, lookup: i32, path: &[u8]) -> bool {
    // A memory of its own for the answer, with the path behind it: at most 4,160 bytes.
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
