//! A memory cgroup, version 1 or 2, whose processes the kernel kills when they need more.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use duebox_harness::duebox_binary;

/// A group. Dropping it removes it, if its processes have ended.
pub(crate) struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Creates a group with this limit in bytes.
    pub(crate) fn create(limit: u64) -> anyhow::Result<Self> {
        let name = format!("duebox-faults-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        let (root, file) = match first.is_dir() {
            true => (first, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let folder = root.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let group = Self { folder };
        let file = group.folder.join(file);
        fs::write(&file, limit.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(group)
    }

    /// Writes a program that joins the group and becomes the daemon.
    pub(crate) fn program(&self, dir: &Path) -> anyhow::Result<PathBuf> {
        let (path, duebox) = (dir.join("duebox-in-group"), duebox_binary());
        let (group, duebox) = (self.folder.display(), duebox.display());
        fs::write(
            &path,
            format!("#!/bin/sh\necho $$ > {group}/cgroup.procs\nexec {duebox} \"$@\"\n"),
        )?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// The number of processes that the kernel killed in the group.
    pub(crate) fn kills(&self) -> u64 {
        let files = ["memory.events", "memory.oom_control"];
        let texts = files.iter().filter_map(|file| fs::read_to_string(self.folder.join(file)).ok());
        let lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        let count = lines.iter().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // It fails only while a process is left, which a failed row may have.
        drop(fs::remove_dir(&self.folder));
    }
}
