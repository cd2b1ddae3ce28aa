//! WASI preview 1, whole, with nothing behind it: no arguments, no directories, no sockets, an empty
//! stdin, the environment as granted, and output that goes to the job's log. Clocks and randomness
//! are the machine's. All its calls are async, so a guest that sleeps holds no thread.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, I32Exit, WasiCtxBuilder};

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
    /// With a `frozen` clock for a snapshot: an early time that stands still, so that no instance that
    /// starts from it ever sees time run backwards.
    pub(crate) fn new(grants: &Grants, log: &Arc<JobLog>, frozen: bool) -> Self {
        let stdout = LineStream::new(Arc::clone(log), Level::Info);
        let stderr = LineStream::new(Arc::clone(log), Level::Warn);
        let mut builder = WasiCtxBuilder::new();
        builder.stdout(stdout.clone()).stderr(stderr.clone());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        if frozen {
            builder.wall_clock(Frozen).monotonic_clock(Frozen);
        }
        for (name, value) in &grants.env {
            builder.env(name, value);
        }
        Self { context: builder.build_p1(), output: [stdout, stderr] }
    }

    /// From now on its output goes to another job's log.
    pub(crate) fn say_to(&self, log: &Arc<JobLog>) {
        self.output.iter().for_each(|stream| stream.say_to(log));
    }

    /// Says what the guest left unfinished on its output, and answers how many bytes of output it had
    /// in all.
    pub(crate) fn finish(&self) -> usize {
        self.output.iter().map(LineStream::finish).sum()
    }
}

/// The time while a snapshot is taken, in unix milliseconds: the first second of 2020.
pub(crate) const FROZEN_UNIX_MS: u64 = 1_577_836_800_000;

/// A clock that stands still.
struct Frozen;

impl HostWallClock for Frozen {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(FROZEN_UNIX_MS)
    }
}

impl HostMonotonicClock for Frozen {
    fn resolution(&self) -> u64 {
        1
    }

    /// Not zero, which Go takes for a broken clock.
    fn now(&self) -> u64 {
        1
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
