//! A cgroup with limits on CPU time and memory, as a container has. Needs root and a writable
//! cgroup file system, version 1 or 2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The period of the CPU quota, the default of containers.
const PERIOD: Duration = Duration::from_millis(100);

/// Limits of a cgroup.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// CPU time in cores.
    pub cpus: f64,
    /// Memory in bytes; `None` for no limit.
    pub memory: Option<u64>,
}

/// A cgroup, removed when the value is dropped. Its processes must have ended by then.
#[derive(Debug)]
pub struct Cgroup {
    cpu: Controller,
    memory: Option<Controller>,
}

/// A folder of a cgroup file system.
#[derive(Debug)]
struct Controller {
    folder: PathBuf,
    is_v2: bool,
}

/// How often the kernel stopped the processes of a cgroup, because they had used their quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttling {
    /// The periods in which a process ran.
    pub periods: u64,
    /// Those in which processes were stopped.
    pub throttled: u64,
}

impl Cgroup {
    /// Creates a cgroup with these limits.
    ///
    /// # Errors
    /// If cgroups cannot be written here. The message says which file.
    pub fn create(limits: Limits) -> io::Result<Self> {
        let name = format!("duebox-{}-{}", std::process::id(), unique());
        let cpu = Controller::create("cpu", &name)?;
        let memory = limits.memory.map(|_| Controller::create("memory", &name)).transpose()?;
        let cgroup = Self { cpu, memory };
        cgroup.limit_cpus(limits.cpus)?;
        // The quota limits the processes, and not what else the machine does.
        let (weight, most) =
            if cgroup.cpu.is_v2 { ("cpu.weight", "10000") } else { ("cpu.shares", "262144") };
        cgroup.cpu.write(weight, most)?;
        if let (Some(memory), Some(bytes)) = (&cgroup.memory, limits.memory) {
            let file = if memory.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
            memory.write(file, &bytes.to_string())?;
        }
        Ok(cgroup)
    }

    /// Changes the CPU limit.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn limit_cpus(&self, cpus: f64) -> io::Result<()> {
        let (quota, period) = (PERIOD.mul_f64(cpus).as_micros(), PERIOD.as_micros());
        if self.cpu.is_v2 {
            return self.cpu.write("cpu.max", &format!("{quota} {period}"));
        }
        self.cpu.write("cpu.cfs_period_us", &period.to_string())?;
        self.cpu.write("cpu.cfs_quota_us", &quota.to_string())
    }

    /// The files that a process writes its id to, to enter the cgroup.
    pub(crate) fn entries(&self) -> Vec<PathBuf> {
        let mut folders = vec![&self.cpu.folder];
        folders.extend(self.memory.as_ref().map(|memory| &memory.folder));
        folders.dedup();
        folders.into_iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// How often the cgroup was stopped so far.
    ///
    /// # Errors
    /// If `cpu.stat` cannot be read.
    pub fn throttling(&self) -> io::Result<Throttling> {
        let text = self.cpu.read("cpu.stat")?;
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
        };
        Ok(Throttling { periods: number("nr_periods "), throttled: number("nr_throttled ") })
    }
}

impl Controller {
    /// Creates a folder below the cgroup of this process, or next to it: in version 2 a cgroup with
    /// processes has no children with limits.
    fn create(controller: &str, name: &str) -> io::Result<Self> {
        let (parent, is_v2) = parent(controller)?;
        if is_v2 {
            write(&parent.join("cgroup.subtree_control"), &format!("+{controller}"))?;
        }
        let folder = parent.join(name);
        // In version 2 all controllers share a folder.
        fs::create_dir_all(&folder).map_err(|error| on(&folder, &error))?;
        Ok(Self { folder, is_v2 })
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        write(&self.folder.join(file), text)
    }

    fn read(&self, file: &str) -> io::Result<String> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).map_err(|error| on(&path, &error))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // Fails only if a process is left. A cgroup without processes costs nothing.
        drop(fs::remove_dir(&self.folder));
    }
}

/// The folder for new cgroups with this controller, and whether it is of version 2.
fn parent(controller: &str) -> io::Result<(PathBuf, bool)> {
    let cgroups = fs::read_to_string("/proc/self/cgroup")?;
    let mut v2 = None;
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == controller) {
            return Ok((Path::new("/sys/fs/cgroup").join(controllers).join(path), false));
        }
        if controllers.is_empty() {
            let own = Path::new("/sys/fs/cgroup").join(path);
            v2 = if path.is_empty() { Some(own) } else { own.parent().map(Path::to_owned) };
        }
    }
    let none = || io::Error::other(format!("no cgroup controller {controller} is mounted"));
    v2.map(|folder| (folder, true)).ok_or_else(none)
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| on(path, &error))
}

fn on(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
