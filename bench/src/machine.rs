//! The machine that a run uses, and the CPU time and memory of a process on it (Linux).

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::Context;
use serde::Serialize;

/// Clock ticks per second in /proc: 100 in user space on every current Linux.
const TICKS_PER_S: f64 = 100.0;

/// The conditions of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) redis: String,
    pub(crate) commit: String,
}

impl Machine {
    /// Describes this machine; an unknown value stays empty.
    pub(crate) fn of_this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let processor = model.unwrap_or_default().trim_start_matches([':', ' ', '\t']).to_owned();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let version = output_of("redis-server", &["--version"]);
        let redis = version.split(' ').find_map(|word| word.strip_prefix("v="));
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: kernel.trim().to_owned(),
            redis: redis.unwrap_or_default().to_owned(),
            commit: output_of("git", &["describe", "--always", "--dirty"]),
        }
    }
}

fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    printed.unwrap_or_default()
}

/// CPU time that a process has used, including its ended threads, in seconds with 10 ms
/// granularity.
pub(crate) fn cpu_s(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The name in parentheses may contain spaces; utime and stime are the 12th and 13th field after
    // it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Ok(ticks.sum::<u64>() as f64 / TICKS_PER_S)
}

/// What the running threads of one name have used since they started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadsLoad {
    /// CPU time, s.
    pub(crate) cpu_s: f64,
    /// How often one of them gave up its core, because it waited for something.
    pub(crate) waits: u64,
}

impl ThreadsLoad {
    /// The same since an earlier reading.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { cpu_s: self.cpu_s - before.cpu_s, waits: self.waits.saturating_sub(before.waits) }
    }
}

/// The threads of a process, by name.
fn threads(pid: u32) -> anyhow::Result<BTreeMap<String, ThreadsLoad>> {
    let mut all = BTreeMap::<String, ThreadsLoad>::new();
    let folder = format!("/proc/{pid}/task");
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
        let thread = entry.with_context(|| format!("cannot read {folder}"))?.path();
        let read = |file: &str| fs::read_to_string(thread.join(file)).unwrap_or_default();
        let (status, times) = (read("status"), read("schedstat"));
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        // A thread that has ended meanwhile has no name.
        let Some(name) = field("Name:") else { continue };
        let load = all.entry(name.trim().to_owned()).or_default();
        let cpu_ns = times.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        load.cpu_s += cpu_ns.unwrap_or_default() / 1e9;
        let waits = field("voluntary_ctxt_switches:").and_then(|count| count.trim().parse().ok());
        load.waits += waits.unwrap_or(0);
    }
    Ok(all)
}

/// What the threads that start all guests of a process have used.
pub(crate) fn guests(pid: u32) -> anyhow::Result<ThreadsLoad> {
    Ok(threads(pid)?.get("guest").copied().unwrap_or_default())
}

/// Peak resident memory of a process, in bytes.
pub(crate) fn peak_memory_bytes(pid: u32) -> anyhow::Result<u64> {
    memory_bytes(pid, "VmHWM:")
}

/// Resident memory of a process, in bytes. A page that it has mapped twice counts twice.
pub(crate) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory_bytes(pid, "VmRSS:")
}

/// Memory that a process takes of the machine, in bytes: each page counts once, however often it is mapped, and one that
/// several processes share counts in parts.
pub(crate) fn proportional_bytes(pid: u32) -> anyhow::Result<u64> {
    kib_of(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

/// Resets the peak memory of a process to what it holds now.
pub(crate) fn reset_peak_memory(pid: u32) -> anyhow::Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").with_context(|| format!("cannot write {path}"))
}

fn memory_bytes(pid: u32, field: &str) -> anyhow::Result<u64> {
    kib_of(&format!("/proc/{pid}/status"), field)
}

/// A field in KiB of a file in /proc, in bytes.
fn kib_of(path: &str, field: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let found = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = found.and_then(|text| text.trim().strip_suffix(" kB"));
    let kib: u64 =
        kib.and_then(|text| text.parse().ok()).with_context(|| format!("{path} has no {field}"))?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_cpu_time() {
        let pid = std::process::id();
        assert!(peak_memory_bytes(pid).unwrap() > 100_000);
        assert!(resident_bytes(pid).unwrap() <= peak_memory_bytes(pid).unwrap());
        assert!(proportional_bytes(pid).unwrap() > 100_000);
        let loads = threads(pid).unwrap();
        assert!(loads.values().any(|load| load.cpu_s > 0.0), "{loads:?}");
        let before = cpu_s(pid).unwrap();
        let mut rounds = 0_u64;
        while cpu_s(pid).unwrap() <= before {
            rounds += 1;
        }
        assert!(rounds > 0);
    }
}
