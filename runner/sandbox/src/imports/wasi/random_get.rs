//! `random_get` of WASI in pieces. The function of wasmtime-wasi fills up to 64 MiB at once, in memory of the
//! host.

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::types::Errno;

use super::{HasWasi, NAMESPACE};
use crate::imports::call::view;
use crate::imports::pieces;

const NAME: &str = "random_get";

/// Replaces the function of wasmtime-wasi.
pub(super) fn link<T: HasWasi>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAMESPACE,
        NAME,
        |mut caller: Caller<'_, T>, (at, length): (u32, u32)| {
            Box::new(async move {
                let view = view(&mut caller, NAME)?;
                let target = view.range(at, length)?;
                view.guest.calls().io.count_in(target.len());
                let interceptor = view.guest.interceptor().cloned();
                pieces::fill_random(interceptor, &mut view.bytes[target]).await;
                wasmtime::Result::Ok(Errno::Success as i32)
            })
        },
    )?;
    Ok(())
}
