//! WASI preview 1, complete, but without access to anything that is not granted.
//!
//! A guest has no arguments, no sockets and an empty standard input. It sees the environment and the
//! directories that its topic grants, the latter read-only. Its output goes to the job's log. All calls are
//! async, so a guest that sleeps or reads occupies no thread.

mod path_open;
mod random_get;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime::{Caller, Linker};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{
    FsPerms, HostMonotonicClock, HostWallClock, I32Exit, WasiCtxBuilder, WasiView as _, filesystem,
};

use crate::grants::Grants;
use crate::imports::call::GuestState;
use crate::imports::clock::{FROZEN_UNIX_MS, InstanceClock, nanos};
use crate::imports::intercept::{self, HostClock, Interceptor};
use crate::imports::log::{JobLog, Level};
use crate::imports::stdio::Output;

/// The namespace.
pub(crate) const NAMESPACE: &str = "wasi_snapshot_preview1";

/// The only import that takes no pointer.
pub(crate) const PROC_EXIT: &str = "proc_exit";

/// Bytes that a guest may pass to the host in one call.
pub(crate) const CALL_BYTES_MAX: usize = 4 << 20;

/// How many resources a guest may hold: directories, open files, and what it waits for. A guest that exceeds it traps. Each open file is a file descriptor of the daemon.
const RESOURCES_MAX: usize = 64;
/// The streams of every guest: standard input, output and error.
const STREAMS: usize = 3;
/// How many directories one topic may grant.
const DIRS_MAX: usize = 16;

/// A directory of a grant that cannot be used.
#[derive(Debug)]
pub(crate) struct DirError {
    /// The path in the guest.
    pub(crate) guest: String,
    /// The path on the host.
    pub(crate) host: PathBuf,
    pub(crate) reason: String,
}

/// Checks that the directories of a grant can be opened.
pub(crate) fn check_dirs(grants: &Grants) -> Result<(), DirError> {
    let refused = |guest: &str, host: &Path, reason: String| DirError {
        guest: guest.to_owned(),
        host: host.to_owned(),
        reason,
    };
    for (number, (guest, host)) in grants.dirs.iter().enumerate() {
        if guest.is_empty() || guest.contains('\0') {
            return Err(refused(guest, host, "its path in the guest is invalid".to_owned()));
        }
        if number >= DIRS_MAX {
            let reason = format!("a topic can have at most {DIRS_MAX} directories");
            return Err(refused(guest, host, reason));
        }
        let mut builder = WasiCtxBuilder::new();
        let opened = builder.preopened_dir(host, guest, FsPerms::ReadOnly);
        opened.map_err(|error| refused(guest, host, error.root_cause().to_string()))?;
    }
    Ok(())
}

/// The state of a guest that uses WASI.
pub(crate) trait HasWasi: GuestState {
    /// Counts a call and returns the context of this instance.
    fn wasi(&mut self) -> &mut WasiP1Ctx;
}

/// The clock of a guest of WASI.
#[derive(Clone, Copy)]
pub(crate) struct WasiClock<'a> {
    pub(crate) instance: InstanceClock,
    pub(crate) interceptor: Option<&'a Arc<dyn Interceptor>>,
}

/// The WASI context of one instance. It is created by the first call, because most modules make none.
#[derive(Default)]
pub(crate) struct WasiState(Option<Box<Wasi>>);

struct Wasi {
    context: WasiP1Ctx,
    output: Output,
    /// How many granted directories were opened.
    dirs: usize,
}

impl WasiState {
    /// The context, which the first call creates.
    pub(crate) fn context(
        &mut self,
        grants: &Grants,
        log: &Arc<JobLog>,
        clock: WasiClock<'_>,
    ) -> &mut WasiP1Ctx {
        let wasi = self.0.get_or_insert_with(|| Box::new(Wasi::new(grants, log, clock)));
        &mut wasi.context
    }

    /// Writes further output to the log of another job.
    pub(crate) fn redirect_output(&self, log: &Arc<JobLog>) {
        if let Some(wasi) = &self.0 {
            wasi.output.redirect(log);
        }
    }

    /// Writes the unfinished lines of the output. Returns how many bytes the job wrote in total.
    pub(crate) fn finish_output(&self) -> usize {
        self.0.as_ref().map_or(0, |wasi| wasi.output.finish())
    }

    /// Drops the context with everything that is open in it.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// Whether the context is in its initial state: no file is open, and no stream is closed.
    pub(crate) fn is_pristine(&mut self) -> bool {
        self.0.as_mut().is_none_or(|wasi| wasi.is_pristine())
    }
}

impl Wasi {
    fn new(grants: &Grants, log: &Arc<JobLog>, clock: WasiClock<'_>) -> Self {
        let output = Output::new(Arc::clone(log));
        let mut builder = WasiCtxBuilder::new();
        builder.stdout(output.stdout()).stderr(output.stderr());
        builder.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        if clock.instance == InstanceClock::Frozen {
            builder.wall_clock(FrozenClock).monotonic_clock(FrozenClock);
        } else if let Some(interceptor) = clock.interceptor {
            let clock = InterceptedClock::new(interceptor);
            builder.wall_clock(clock.clone()).monotonic_clock(clock);
        }
        for (name, value) in &grants.env {
            builder.env(name, value);
        }
        let mut dirs = 0;
        for (guest, host) in &grants.dirs {
            // The directory existed when the module was loaded. If it is gone, the guest does not see it.
            match builder.preopened_dir(host, guest, FsPerms::ReadOnly) {
                Ok(_) => dirs += 1,
                Err(error) => {
                    let reason = error.root_cause();
                    let text = format!("the directory {guest} cannot be opened: {reason}");
                    log.write(Level::Warn, text.as_bytes());
                }
            }
        }
        let mut context = builder.build_p1();
        context.ctx().table.set_max_capacity(RESOURCES_MAX);
        Self { context, output, dirs }
    }

    fn is_pristine(&mut self) -> bool {
        let (mut resources, mut dirs) = (0, 0);
        for entry in self.context.ctx().table.iter_mut() {
            resources += 1;
            let descriptor = entry.downcast_ref::<filesystem::Descriptor>();
            dirs += usize::from(matches!(descriptor, Some(filesystem::Descriptor::Dir(_))));
        }
        // The table is empty until the first call that uses a descriptor.
        resources == 0 || (dirs == self.dirs && resources == dirs + STREAMS)
    }
}

/// The clock while a snapshot is taken.
struct FrozenClock;

impl HostWallClock for FrozenClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::from_millis(FROZEN_UNIX_MS)
    }
}

impl HostMonotonicClock for FrozenClock {
    fn resolution(&self) -> u64 {
        1
    }

    /// Not 0, which Go treats as a broken clock.
    fn now(&self) -> u64 {
        1
    }
}

/// The clocks of a run with an interceptor.
#[derive(Clone)]
struct InterceptedClock {
    interceptor: Arc<dyn Interceptor>,
    since: Instant,
}

impl InterceptedClock {
    fn new(interceptor: &Arc<dyn Interceptor>) -> Self {
        Self { interceptor: Arc::clone(interceptor), since: Instant::now() }
    }

    fn read(&self, clock: HostClock, host: impl FnOnce() -> Duration) -> u64 {
        intercept::clock(Some(&self.interceptor), clock, || nanos(host()))
    }
}

impl HostWallClock for InterceptedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        let host = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Duration::from_nanos(self.read(HostClock::WasiWall, host))
    }
}

impl HostMonotonicClock for InterceptedClock {
    fn resolution(&self) -> u64 {
        1
    }

    /// Not 0, which Go treats as a broken clock.
    fn now(&self) -> u64 {
        self.read(HostClock::WasiMonotonic, || self.since.elapsed()).max(1)
    }
}

/// Links all functions of preview 1.
pub(crate) fn link<T: HasWasi>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, T::wasi)?;
    // The function of wasmtime-wasi needs a memory, and reports exit codes from 126 as another error.
    linker.allow_shadowing(true);
    linker.func_wrap(NAMESPACE, PROC_EXIT, |_: Caller<'_, T>, code: i32| {
        Err::<(), _>(wasmtime::Error::new(I32Exit(code)))
    })?;
    path_open::link(linker)?;
    random_get::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}
