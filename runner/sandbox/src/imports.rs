//! What a handler can import. Each import is a file here, which owns the state that it needs.
//!
//! An import is generic over the state of a guest: a trait names the parts that it uses, and the guest
//! (`instance::guest`) implements these traits. So no import knows the guest, and only
//! this file knows all imports.

pub(crate) mod abi;
pub(crate) mod assemblyscript;
mod blocks;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod http;
pub(crate) mod intercept;
pub(crate) mod io;
pub(crate) mod job;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod output;
mod pieces;
pub(crate) mod push;
pub(crate) mod services;
pub(crate) mod spans;
mod stdio;
pub(crate) mod text;
mod trace_context;
pub(crate) mod wasi;

use wasmtime::Linker;

use self::assemblyscript::HasInstanceClock;
use self::http::HasHttp;
use self::kv::HasKv;
use self::output::HasOutput;
use self::push::HasFollowUps;
use self::wasi::HasWasi;

/// Links every import.
pub(crate) fn link<T>(linker: &mut Linker<T>) -> wasmtime::Result<()>
where
    T: HasOutput + HasFollowUps + HasHttp + HasKv + HasWasi + HasInstanceClock,
{
    job::link(linker)?;
    output::link(linker)?;
    log::link(linker)?;
    push::link(linker)?;
    http::link(linker)?;
    kv::link(linker)?;
    assemblyscript::link(linker)?;
    wasi::link(linker)
}

/// Whether an import takes a pointer. `None` if the import does not exist. The names of WASI are checked by
/// the linker instead.
pub(crate) fn takes_pointer(module: &str, name: &str) -> Option<bool> {
    let find = |imports: &[(&str, bool)]| {
        imports.iter().find(|(known, _)| *known == name).map(|(_, pointer)| *pointer)
    };
    match module {
        abi::NAMESPACE => {
            let groups: [&[(&str, bool)]; 6] = [
                &job::IMPORTS,
                &output::IMPORTS,
                &log::IMPORTS,
                &push::IMPORTS,
                &http::IMPORTS,
                &kv::IMPORTS,
            ];
            groups.into_iter().find_map(find)
        }
        assemblyscript::NAMESPACE => find(&assemblyscript::IMPORTS),
        wasi::NAMESPACE => Some(name != wasi::PROC_EXIT),
        _ => None,
    }
}
