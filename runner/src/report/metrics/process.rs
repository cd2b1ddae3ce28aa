//! Metrics of this process under the names that Prometheus clients use. Linux only: without `/proc`
//! they are left out.

use std::fmt;
use std::fs;

use super::page::{About, Page};

/// Clock ticks per second in `/proc`; the same on every architecture of Linux.
const TICKS: f64 = 100.0;

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

impl Process {
    pub(super) fn read() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let booted = fs::read_to_string("/proc/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let kib = |name| Some(number(&status, name)? * 1_024);
        Self {
            cpu_seconds: cpu_ticks(&stat).map(|ticks| ticks as f64 / TICKS),
            started_at: started_at(&stat, &booted),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            threads: number(&status, "Threads:"),
            open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
            files_max: number(&limits, "Max open files"),
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

/// A field of `/proc/self/stat` by its number. The name in field 2 may contain blanks, so the
/// fields after it are counted from 3.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_ticks(stat: &str) -> Option<u64> {
    Some(stat_field(stat, 14)? + stat_field(stat, 15)?)
}

fn started_at(stat: &str, booted: &str) -> Option<f64> {
    Some(number(booted, "btime ")? as f64 + stat_field(stat, 22)? as f64 / TICKS)
}

/// The number after a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
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

    #[test]
    fn a_name_with_blanks_and_brackets_shifts_no_field() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 5 0 300 0";
        assert_eq!((cpu_ticks(stat), stat_field(stat, 22)), (Some(42), Some(300)));
        assert_eq!(started_at(stat, "cpu 1\nbtime 1000\n"), Some(1_003.0));
        assert_eq!(cpu_ticks(""), None);
    }
}
