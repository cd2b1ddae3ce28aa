//! What Linux tells about a process.

use procfs::process::Process;

/// The figures of a process at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) memory_kib: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl Figures {
    /// The figures of a process; zeros if it has ended.
    pub(crate) fn of(pid: u32) -> Self {
        let read = || {
            let process = Process::new(i32::try_from(pid).ok()?).ok()?;
            let status = process.status().ok()?;
            let descriptors = process.fd_count().ok()? as u64;
            Some(Self { memory_kib: status.vmrss?, threads: status.threads, descriptors })
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_figures() {
        let own = Figures::of(std::process::id());
        assert!(own.memory_kib > 100 && own.threads > 0 && own.descriptors > 2, "{own:?}");
    }
}
