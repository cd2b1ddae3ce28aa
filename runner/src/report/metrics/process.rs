//! Metrics of this process under the names that Prometheus clients use. Those that the system does not tell
//! are left out; outside Linux that is all of them.

use std::fmt;

#[cfg(target_os = "linux")]
use procfs::{WithCurrentSystemInfo, process::LimitValue};

use super::page::{About, Page};

/// The values that could be read.
#[derive(Debug, Default)]
pub(super) struct Process {
    cpu_seconds: Option<f64>,
    started_at: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    open_files: Option<u64>,
    files_max: Option<u64>,
}

/// Resident memory of this process; `None` if the system does not tell.
pub(in crate::report) fn resident_bytes() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let stat = procfs::process::Process::myself().ok()?.stat().ok()?;
        Some(stat.rss_bytes().get())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

impl Process {
    #[cfg(not(target_os = "linux"))]
    pub(super) fn read() -> Self {
        Self::default()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn read() -> Self {
        let Ok(process) = procfs::process::Process::myself() else { return Self::default() };
        let stat = process.stat().ok();
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        let started_after = stat.as_ref().map(|stat| seconds(stat.starttime));
        let booted_at = procfs::boot_time_secs().ok();
        Self {
            cpu_seconds: stat.as_ref().map(|stat| seconds(stat.utime + stat.stime)),
            started_at: booted_at.zip(started_after).map(|(at, after)| at as f64 + after),
            resident_bytes: stat.as_ref().map(|stat| stat.rss_bytes().get()),
            virtual_bytes: stat.as_ref().map(|stat| stat.vsize),
            threads: stat.as_ref().and_then(|stat| u64::try_from(stat.num_threads).ok()),
            open_files: process.fd_count().ok().map(|files| files as u64),
            files_max: process.limits().ok().and_then(|limits| {
                match limits.max_open_files.soft_limit {
                    LimitValue::Value(files) => Some(files),
                    LimitValue::Unlimited => None,
                }
            }),
        }
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        if let Some(seconds) = self.cpu_seconds {
            page.counter(&About::seconds("process_cpu", "CPU time of the process."), seconds)?;
        }
        if let Some(at) = self.started_at {
            let about =
                About::seconds("process_start_time", "Start time of the process, in unix seconds.");
            page.gauge(&about, at)?;
        }
        let gauges = [
            (
                About::bytes("process_resident_memory", "Resident memory of the process."),
                self.resident_bytes,
            ),
            (
                About::bytes(
                    "process_virtual_memory",
                    "Address space of the process; most of it is the pool of the sandboxes.",
                ),
                self.virtual_bytes,
            ),
            (About::new("process_threads", "Threads of the process."), self.threads),
            (About::new("process_open_fds", "Open files and sockets."), self.open_files),
            (
                About::new("process_max_fds", "Maximum number of open files and sockets."),
                self.files_max,
            ),
        ];
        for (about, value) in gauges {
            if let Some(value) = value {
                page.gauge(&about, value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_this_process_are_plausible() {
        let process = Process::read();
        assert!(process.cpu_seconds.is_some() && process.files_max > process.open_files);
        assert!(process.resident_bytes > Some(1 << 20) && process.threads >= Some(2));
        assert!(process.virtual_bytes >= process.resident_bytes);
        let now = jiff::Timestamp::now().as_second() as f64;
        let started_at = process.started_at.unwrap();
        // One test binary runs for less than an hour.
        assert!(started_at <= now + 1.0 && started_at > now - 3_600.0, "{started_at} {now}");
    }
}
