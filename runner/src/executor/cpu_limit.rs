//! The CPU limit of this process: the quota of its cgroup, or of a cgroup around it. Containers get one as
//! `--cpus` or `resources.limits.cpu`.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// A CPU limit: in each period the threads of the cgroup may use so much CPU time together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuLimit {
    /// The CPU time.
    pub(super) quota: Duration,
    /// The length of a period, 100 ms by default.
    pub(super) period: Duration,
}

/// The files of a hierarchy of cgroups that hold a CPU limit.
#[derive(Debug, Clone, Copy)]
enum Version {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    V1,
    /// `cpu.max`.
    V2,
}

impl CpuLimit {
    /// The limit as a number of cores.
    pub(super) fn cores(&self) -> f64 {
        self.quota.as_secs_f64() / self.period.as_secs_f64()
    }

    /// The limit of this process. `None` without a limit, if it cannot be read, or if it allows all cores
    /// that the process may use: the kernel then never enforces it.
    pub(super) fn read() -> Option<Self> {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let limit = tightest(
            &read(Path::new("/proc/self/cgroup"))?,
            &read(Path::new("/proc/self/mountinfo"))?,
            read,
        )?;
        (limit.cores() < usable_cores()).then_some(limit)
    }

    fn from_micros(quota: &str, period: &str) -> Option<Self> {
        // Without a limit the quota is `max` or -1.
        let micros = |text: &str| text.trim().parse().ok().filter(|us| *us > 0);
        let (quota, period) = (micros(quota)?, micros(period)?);
        Some(Self { quota: Duration::from_micros(quota), period: Duration::from_micros(period) })
    }

    fn of(
        folder: &Path,
        version: Version,
        read: &impl Fn(&Path) -> Option<String>,
    ) -> Option<Self> {
        match version {
            Version::V1 => Self::from_micros(
                &read(&folder.join("cpu.cfs_quota_us"))?,
                &read(&folder.join("cpu.cfs_period_us"))?,
            ),
            Version::V2 => {
                let text = read(&folder.join("cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                Self::from_micros(quota, period)
            }
        }
    }
}

/// The cores that are online and that this process may run on; infinite if the system does not tell.
fn usable_cores() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"));
    let allowed: u32 = allowed.map_or(u32::MAX, |mask| {
        mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum()
    });
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_core = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    match stat.lines().filter(is_core).count() {
        0 => f64::INFINITY,
        online => f64::from(allowed).min(online as f64),
    }
}

/// The tightest limit in the process's cgroup and the cgroups around it, as far as they are mounted.
/// `cgroups` is `/proc/self/cgroup`, `mounts` is `/proc/self/mountinfo`.
fn tightest(
    cgroups: &str,
    mounts: &str,
    read: impl Fn(&Path) -> Option<String>,
) -> Option<CpuLimit> {
    let mut limits = Vec::new();
    for line in mounts.lines() {
        let Some((version, mount_point, folder)) = cgroup_at(line, cgroups) else { continue };
        let around = folder.ancestors().take_while(|folder| folder.starts_with(mount_point));
        limits.extend(around.filter_map(|folder| CpuLimit::of(folder, version, &read)));
    }
    limits.into_iter().min_by(|one, other| one.cores().total_cmp(&other.cores()))
}

/// The process's cgroup in a mounted hierarchy with CPU limits: its version, where it is mounted, and the
/// cgroup's folder. A line is `ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS … - TYPE SOURCE SUPER_OPTIONS`.
fn cgroup_at<'m>(line: &'m str, cgroups: &str) -> Option<(Version, &'m Path, PathBuf)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, mount_point) = (mount.next()?, Path::new(mount.next()?));
    let mut file_system = file_system.split(' ');
    let version = match (file_system.next()?, file_system.nth(1)?) {
        ("cgroup2", _) => Version::V2,
        ("cgroup", options) if options.split(',').any(|option| option == "cpu") => Version::V1,
        _ => return None,
    };
    let below = Path::new(path_in(cgroups, version)?).strip_prefix(root).ok()?;
    // A process that was moved into a container has a path that leads out of what is mounted.
    let leads_out = below.components().any(|part| part == Component::ParentDir);
    (!leads_out).then(|| (version, mount_point, mount_point.join(below)))
}

/// The process's path in a hierarchy. A line of `/proc/self/cgroup` is `ID:CONTROLLERS:PATH`; version 2 has
/// no controllers.
fn path_in(cgroups: &str, version: Version) -> Option<&str> {
    cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_it = match version {
            Version::V1 => controllers.split(',').any(|controller| controller == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        is_it.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const V2: &str = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw";
    const V1: &str = "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      31 24 0:27 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory";

    /// The limit in cores with these files.
    fn cores(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<f64> {
        let files: HashMap<&Path, &str> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let read = |path: &Path| files.get(path).map(|text| (*text).to_owned());
        tightest(cgroups, mounts, read).map(|limit| limit.cores())
    }

    #[test]
    fn the_tightest_limit_around_the_process_counts() {
        let files = [
            ("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n"),
            ("/sys/fs/cgroup/pod/app/cpu.max", "200000 100000\n"),
            ("/sys/fs/cgroup/pod/other/cpu.max", "1000 100000\n"),
        ];
        assert_eq!(cores("0::/pod/app\n", V2, &files), Some(0.5));
        assert_eq!(cores("0::/elsewhere\n", V2, &files), None);
        let unlimited = [("/sys/fs/cgroup/pod/cpu.max", "max 100000\n")];
        assert_eq!(cores("0::/pod\n", V2, &unlimited), None);
    }

    #[test]
    fn a_limit_of_the_first_version_is_found() {
        let at = |name: &str| format!("/sys/fs/cgroup/cpu,cpuacct/{name}");
        let (quota, period) = (at("a/cpu.cfs_quota_us"), at("a/cpu.cfs_period_us"));
        let around = at("cpu.cfs_quota_us");
        let files = [(&*quota, "25000\n"), (&*period, "100000\n"), (&*around, "-1\n")];
        assert_eq!(cores("5:memory:/\n4:cpu,cpuacct:/a\n0::/\n", V1, &files), Some(0.25));
        assert_eq!(cores("5:memory:/a\n4:cpu,cpuacct:/\n0::/\n", V1, &files), None);
    }

    #[test]
    fn a_container_sees_only_its_own_part_of_the_hierarchy() {
        let files = [("/sys/fs/cgroup/cpu.max", "50000 100000\n")];
        let bound = "24 1 0:22 /docker/a /sys/fs/cgroup ro - cgroup2 cgroup2 rw";
        assert_eq!(cores("0::/docker/a\n", bound, &files), Some(0.5));
        assert_eq!(cores("0::/docker/b\n", bound, &files), None);
        assert_eq!(cores("0::/\n", V2, &files), Some(0.5));
        assert_eq!(cores("0::/../b\n", V2, &files), None);
    }

    #[test]
    fn the_system_tells_its_cores() {
        let cores = usable_cores();
        assert!((1.0..10_000.0).contains(&cores), "{cores}");
        CpuLimit::read();
    }
}
