//! Full disks, each a small tmpfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::judge::Policy;
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

const NO_MOUNT: &str = "a tmpfs can be mounted by root only";

/// A mounted tmpfs. Dropping it unmounts it.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    fn mount(folder: &Path, size: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let options = format!("size={size},mode=0700");
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "-o", &options, "duebox-faults"]).arg(folder);
        let output = output.output().context("cannot run mount")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { folder: folder.to_owned() })
    }

    /// Writes zeros until no space is left.
    fn fill(&self) {
        let path = self.folder.join("fill");
        let Ok(mut file) = fs::File::create(path) else { return };
        for size in [64 << 10, 4 << 10, 512, 1] {
            while std::io::Write::write_all(&mut file, &vec![0; size]).is_ok() {}
        }
    }

    fn free(&self) {
        drop(fs::remove_file(self.folder.join("fill")));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.folder).status());
    }
}

pub(super) fn full_cache(context: &Context) -> anyhow::Result<Outcome> {
    let policy = Policy::dead_runners(Duration::from_secs(2));
    let setting = Setting { policy, ..Setting::default() };
    let mut scene = Scene::prepare(context, &setting)?;
    let folder = scene.dir.path().join("cache");
    let Ok(disk) = Disk::mount(&folder, "256k") else {
        return Ok(Outcome::Skipped(NO_MOUNT.to_owned()));
    };
    let (old, new) = (context.cache.display().to_string(), folder.display().to_string());
    scene.change_manifest(&old, &new)?;
    disk.fill();
    scene.fleet.add(&[])?;
    scene.fleet.add(&[])?;
    scene.start_load(context)?;
    scene.mark_memory();
    for _ in 0..context.times(3, 1) {
        scene.pause(300..800);
        scene.fleet.kill(0)?;
        scene.fleet.start(0)?;
        scene.fleet.signal(1, "HUP")?;
    }
    let verdict = scene.finish()?;
    drop(disk);
    Ok(Outcome::Judged(Box::new(verdict)))
}

pub(super) fn full_managed_redis(context: &Context) -> anyhow::Result<Outcome> {
    let mut scene = Scene::prepare(context, &Setting::default())?;
    let folder = scene.dir.path().join("redis");
    let Ok(disk) = Disk::mount(&folder, "24m") else {
        return Ok(Outcome::Skipped(NO_MOUNT.to_owned()));
    };
    scene.change_manifest(&scene.redis.url(), "managed")?;
    scene.queue_url = format!("redis+unix://{}", folder.join("redis.sock").display());
    scene.fleet.add(&[])?;
    scene.start_load(context)?;
    scene.mark_memory();
    for _ in 0..context.times(5, 1) {
        scene.pause(300..1_000);
        disk.fill();
        scene.pause(200..1_200);
        disk.free();
        scene.ledger.fault_ended();
        scene.pause(500..1_500);
    }
    let verdict = scene.finish()?;
    drop(disk);
    Ok(Outcome::Judged(Box::new(verdict)))
}
