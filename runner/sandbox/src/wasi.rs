//! WASI preview 1, whole, with nothing behind it: no arguments, no directories, no sockets, an empty
//! stdin, the environment as granted, and output that goes to the job's log. Clocks and randomness
//! are the machine's. All its calls are async, so a guest that sleeps holds no thread.

use std::sync::Arc;

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{I32Exit, WasiCtxBuilder};

use crate::guest::Guest;
use crate::limits::Grants;
use crate::log::{JobLog, Level};
use crate::stdio::LineStream;

/// The namespace of its imports.
pub(crate) const NAMESPACE: &str = "wasi_snapshot_preview1";

/// Bytes a guest may hand to the host in one call.
pub(crate) const CALL_BYTES_MAX: usize = 4 << 20;

/// One instance's WASI.
pub(crate) struct Wasi {
    pub(crate) context: WasiP1Ctx,
    output: [LineStream; 2],
}

impl Wasi {
    pub(crate) fn new(grants: &Grants, log: &Arc<JobLog>) -> Self {
        let stdout = LineStream::new(Arc::clone(log), Level::Info);
        let stderr = LineStream::new(Arc::clone(log), Level::Warn);
        let mut builder = WasiCtxBuilder::new();
        builder.stdout(stdout.clone()).stderr(stderr.clone());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        for (name, value) in &grants.env {
            builder.env(name, value);
        }
        Self { context: builder.build_p1(), output: [stdout, stderr] }
    }

    /// Says what the guest left unfinished on its output.
    pub(crate) fn finish(&self) {
        self.output.iter().for_each(LineStream::finish);
    }
}

/// Links every function of preview 1.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, Guest::wasi)?;
    // The stock one wants a memory, and refuses exit codes from 126 on with an error that is no exit.
    linker.allow_shadowing(true);
    linker.func_wrap(NAMESPACE, "proc_exit", |_: Caller<'_, Guest>, code: i32| {
        Err::<(), _>(wasmtime::Error::new(I32Exit(code)))
    })?;
    linker.allow_shadowing(false);
    Ok(())
}
