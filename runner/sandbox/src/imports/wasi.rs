//! WASI preview 1, whole, with nothing behind it: no arguments, no sockets, an empty stdin, the environment
//! and directories as granted, these to read only, and output that goes to the job's log. Clocks and
//! randomness are the machine's. All its calls are async, so a guest that sleeps or reads holds no thread.

mod path_open;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{
    FsPerms, HostMonotonicClock, HostWallClock, I32Exit, WasiCtxBuilder, WasiView as _, filesystem,
};

use crate::imports::log::{JobLog, Level};
use crate::imports::stdio::Output;
use crate::instance::guest::Guest;
use crate::limits::Grants;
use crate::module::error::LoadError;

/// The namespace of its imports.
pub(crate) const NAMESPACE: &str = "wasi_snapshot_preview1";

/// Bytes a guest may hand to the host in one call.
pub(crate) const CALL_BYTES_MAX: usize = 4 << 20;

/// What a guest with directories may hold at once: these, open files, and what it waits for. A guest that
/// wants more traps; each open file is a file descriptor of the daemon.
const HELD_MAX: usize = 64;
/// What every guest is given: input, output, and output for errors.
const STREAMS: usize = 3;
/// Directories that one topic may grant.
const DIRS_MAX: usize = 16;

/// Checks that the directories of a grant can be opened.
pub(crate) fn check_dirs(grants: &Grants) -> Result<(), LoadError> {
    let refused = |guest: &str, host: &Path, why: String| LoadError::Directory {
        guest: guest.to_owned(),
        host: host.to_owned(),
        why,
    };
    for (number, (guest, host)) in grants.dirs.iter().enumerate() {
        if guest.is_empty() || guest.contains('\0') {
            return Err(refused(guest, host, "it has no name that a guest could use".to_owned()));
        }
        if number >= DIRS_MAX {
            let why = format!("a topic can have {DIRS_MAX} directories, and this is one more");
            return Err(refused(guest, host, why));
        }
        let mut builder = WasiCtxBuilder::new();
        let opened = builder.preopened_dir(host, guest, FsPerms::ReadOnly);
        opened.map_err(|error| refused(guest, host, error.root_cause().to_string()))?;
    }
    Ok(())
}

/// One instance's WASI.
pub(crate) struct Wasi {
    pub(crate) context: WasiP1Ctx,
    pub(crate) output: Output,
    /// Directories that it was given.
    dirs: usize,
}

impl Wasi {
    /// With a `frozen` clock for a snapshot: an early time that stands still, so that no instance that
    /// starts from it ever sees time run backwards.
    pub(crate) fn new(grants: &Grants, log: &Arc<JobLog>, frozen: bool) -> Self {
        let output = Output::new(Arc::clone(log));
        let mut builder = WasiCtxBuilder::new();
        builder.stdout(output.stdout()).stderr(output.stderr());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        if frozen {
            builder.wall_clock(Frozen).monotonic_clock(Frozen);
        }
        for (name, value) in &grants.env {
            builder.env(name, value);
        }
        let mut dirs = 0;
        for (guest, host) in &grants.dirs {
            // It was there when the module was loaded; without it the guest finds nothing under the name.
            match builder.preopened_dir(host, guest, FsPerms::ReadOnly) {
                Ok(_) => dirs += 1,
                Err(error) => {
                    let why = error.root_cause();
                    let text = format!("the directory {guest} cannot be opened: {why}");
                    log.say(Level::Warn, text.as_bytes());
                }
            }
        }
        let mut context = builder.build_p1();
        if !grants.dirs.is_empty() {
            context.ctx().table.set_max_capacity(HELD_MAX);
        }
        Self { context, output, dirs }
    }

    /// Whether all that it was given is open, and nothing else: no file that a job left behind.
    pub(crate) fn is_as_given(&mut self) -> bool {
        let (mut held, mut dirs) = (0, 0);
        for entry in self.context.ctx().table.iter_mut() {
            held += 1;
            let dir = entry.downcast_ref::<filesystem::Descriptor>();
            dirs += usize::from(matches!(dir, Some(filesystem::Descriptor::Dir(_))));
        }
        // Input, output and errors are streams; before the guest first asks, there is nothing at all.
        held == 0 || (dirs == self.dirs && held == dirs + STREAMS)
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
    path_open::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}
