//! `duebox init`: starts a project with a manifest and a handler that runs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::support::failure::Failure;
use super::support::output;
use crate::redis_host::managed;

/// The files of a project. The manifest is the last one: a folder with a manifest is complete.
const FILES: [(&str, &str); 2] = [
    ("hello.ts", include_str!("init/hello.ts")),
    ("duebox.toml", include_str!("init/duebox.toml")),
];

/// Start a project: a manifest and a first handler that runs
///
/// Writes duebox.toml and hello.ts. The manifest lets the daemon start a Redis of its own and
/// pushes a job every five seconds, so `duebox run` shows jobs at once. Needs no toolchain and no
/// Node. Existing files are never overwritten.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox init
  duebox init hello && cd hello && duebox run

Exit codes:
  0  the files are written
  1  a file cannot be written
  2  the folder has such a file: nothing was written")]
pub(super) struct InitArgs {
    /// The folder of the project; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

pub(super) fn init(args: &InitArgs) -> Result<ExitCode, Failure> {
    let dir = args.dir.as_path();
    if let Some(existing) = existing(dir) {
        return Err(exists(&existing));
    }
    fs::create_dir_all(dir).map_err(|error| unwritable(dir, &error))?;
    write_all(dir)?;
    output::print(&next_steps(dir))?;
    if !managed::is_installed() {
        output::print_aside(
            "warning: neither redis-server nor valkey-server is installed, and `duebox run` starts \
             one\nhint: install one (apt-get install redis-server), or set redis.url in duebox.toml",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The first of the files that exists; a dangling link counts.
fn existing(dir: &Path) -> Option<PathBuf> {
    FILES.iter().map(|(name, _)| dir.join(name)).find(|path| path.symlink_metadata().is_ok())
}

/// Writes the files, or none of them.
fn write_all(dir: &Path) -> Result<(), Failure> {
    let mut written: Vec<PathBuf> = Vec::new();
    for (name, text) in FILES {
        let path = dir.join(name);
        if let Err(failure) = write_new(&path, text) {
            for path in written {
                // The first failure is reported.
                drop(fs::remove_file(path));
            }
            return Err(failure);
        }
        written.push(path);
    }
    Ok(())
}

/// Writes a file that does not exist yet, or leaves none.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = match File::create_new(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(exists(path)),
        Err(error) => return Err(unwritable(path, &error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| {
        drop(fs::remove_file(path));
        unwritable(path, &error)
    })
}

fn exists(path: &Path) -> Failure {
    Failure::bad_input(
        format!("{} exists; nothing was written", path.display()),
        "name another folder, for example: duebox init hello",
    )
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("{} cannot be written: {error}", path.display()),
        "name a folder that this user can write",
    )
}

fn next_steps(dir: &Path) -> String {
    let enter = match dir == Path::new(".") {
        true => String::new(),
        false => format!("  cd {}\n", dir.display()),
    };
    let names: Vec<&str> = FILES.iter().rev().map(|(name, _)| *name).collect();
    format!(
        "wrote {} to {}\n\nnext:\n{enter}  duebox run                # serves the topic hello, and starts a Redis of its own\n  \
         duebox push hello Ada     # in a second terminal\n  duebox stats --watch",
        names.join(" and "),
        dir.display()
    )
}
