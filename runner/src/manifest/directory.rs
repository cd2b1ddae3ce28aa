//! Directories that a handler may read: `dirs` of a sandbox, the guest's path to the host's.
//!
//! Guest paths are written in one way only, so that no two name the same place. They may lie inside each
//! other: a guest then finds the one with the longest path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::section::{Section, Value};

/// Directories that one table may name; each is opened for every instance of a handler.
pub(super) const DIRS_MAX: usize = 16;
/// The longest path in the guest, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// Reads `dirs`; every bad entry is told.
pub(super) fn read_dirs(section: &Section<'_>) -> BTreeMap<String, PathBuf> {
    let reader = section.reader();
    let must_be_there = reader.environment().runs_handlers();
    let read_entry = |(guest, value): (&Spanned<Cow<'_, str>>, &Value<'_>)| {
        let path = guest.get_ref().as_ref();
        let checked = check_guest_path(path);
        if let Err(why) = checked {
            let hint = "write the path the handler will open, such as \"/data\"";
            reader.refuse(Some(guest.span()), format!("`dirs`: {path:?} {why}"), hint);
        }
        let host = reader.path(path, value)?;
        if must_be_there && let Err(why) = check_host_path(&host) {
            reader.await_change(&host);
            let title = format!("`dirs`: {} {why}", host.display());
            reader.refuse(Some(value.span()), title, "name a directory that this user can read");
            return None;
        }
        checked.is_ok().then(|| (path.to_owned(), host))
    };
    let entries = section.table("dirs").into_iter().flatten();
    entries.filter_map(read_entry).collect()
}

/// A path as a guest names it.
///
/// # Errors
/// What is wrong with it, to be read behind it.
pub(crate) fn check_guest_path(path: &str) -> Result<(), &'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Err("does not start with '/'") };
    if path.len() > PATH_BYTES_MAX {
        return Err("is longer than 1024 bytes");
    }
    if path.contains('\0') {
        return Err("holds a NUL byte");
    }
    let odd = |part: &str| matches!(part, "" | "." | "..");
    if !rest.is_empty() && rest.split('/').any(odd) {
        return Err("has an empty part, '.' or '..' in it");
    }
    Ok(())
}

/// A directory of this machine, as it is now.
///
/// # Errors
/// What is wrong with it, to be read behind it.
pub(crate) fn check_host_path(path: &Path) -> Result<(), String> {
    match std::fs::read_dir(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot be read as a directory: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_guest_has_one_way_to_be_written() {
        for path in ["/", "/data", "/data/zones.d", "/..data", "/a b"] {
            assert_eq!(check_guest_path(path), Ok(()), "{path}");
        }
        for path in ["", "data", "./data", "//", "/data/", "/data//x", "/./x", "/x/..", "/a\0b"] {
            assert!(check_guest_path(path).is_err(), "{path:?}");
        }
        assert!(check_guest_path(&format!("/{}", "x".repeat(PATH_BYTES_MAX))).is_err());
    }
}
