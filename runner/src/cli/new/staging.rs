//! Writes a project whole, or not at all: next to its place under another name, and then renamed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::support::failure::Failure;

/// Writes files to a folder that is empty or does not exist.
pub(super) fn write(dir: &Path, files: &[(PathBuf, String)]) -> Result<(), Failure> {
    let exists = match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            Some(_) => return Err(not_empty(dir)),
            None => true,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(not_empty(dir)),
        Err(error) => return Err(unwritable(dir, &error)),
    };
    // An empty folder stays the one that a shell may be in: its files are moved into it.
    let (parent, missing) = match exists {
        true => (dir.to_owned(), None),
        false => (parent_of(dir), first_missing(&parent_of(dir))),
    };
    let staged = fs::create_dir_all(&parent).and_then(|()| stage(&parent, files));
    let placed = staged.and_then(|staging| match exists {
        true => move_entries(staging.path(), dir),
        // Fails if the folder has come to be and has files.
        false => fs::rename(staging.path(), dir),
    });
    placed.map_err(|error| {
        if let Some(missing) = missing {
            // The first failure is reported. Only empty folders are removed.
            drop(remove_empty(&parent, &missing));
        }
        unwritable(dir, &error)
    })
}

/// Writes all files to a folder that is removed again, unless it is kept.
fn stage(parent: &Path, files: &[(PathBuf, String)]) -> io::Result<tempfile::TempDir> {
    let staging = tempfile::Builder::new().prefix(".duebox-new-").tempdir_in(parent)?;
    for (file, text) in files {
        let path = staging.path().join(file);
        fs::create_dir_all(parent_of(&path))?;
        fs::write(path, text)?;
    }
    // Temporary folders are private; a project is as other folders are.
    let example = staging.path().join("mode");
    fs::create_dir(&example)?;
    fs::set_permissions(staging.path(), example.metadata()?.permissions())?;
    fs::remove_dir(example)?;
    Ok(staging)
}

/// Moves the entries of a folder to another one of the same file system; the manifest last.
fn move_entries(from: &Path, to: &Path) -> io::Result<()> {
    let mut names =
        fs::read_dir(from)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_by_key(|name| name == "duebox.toml");
    for (count, name) in names.iter().enumerate() {
        if let Err(error) = fs::rename(from.join(name), to.join(name)) {
            for moved in &names[..count] {
                drop(fs::rename(to.join(moved), from.join(moved)));
            }
            return Err(error);
        }
    }
    Ok(())
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The topmost folder of a path that does not exist.
fn first_missing(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .take_while(|it| *it != Path::new("") && !it.exists())
        .last()
        .map(Path::to_owned)
}

/// Removes a folder and those above it, up to `top`, as far as they are empty.
fn remove_empty(folder: &Path, top: &Path) -> io::Result<()> {
    folder.ancestors().take_while(|it| it.starts_with(top)).try_for_each(fs::remove_dir)
}

fn not_empty(dir: &Path) -> Failure {
    Failure::bad_input(
        format!("{} exists and is not an empty folder; nothing was written", dir.display()),
        "name another folder, for example: duebox new rust order-close",
    )
}

fn unwritable(dir: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("{} cannot be written: {error}", dir.display()),
        "name a folder that this user can write",
    )
}
