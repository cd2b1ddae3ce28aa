//! Directories that a handler may read: `dirs` of a sandbox maps guest paths to host paths.
//!
//! A guest path has exactly one accepted spelling, so no two entries mean the same place. Guest paths may
//! be nested; the longest matching path applies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::reader::Value;
use super::section::Section;

/// The most directories of one handler; each is opened for every instance.
pub(super) const DIRS_MAX: usize = 16;
/// The longest path in the guest, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// Reads `dirs` and reports every invalid entry.
pub(super) fn read_dirs(section: &Section<'_>) -> BTreeMap<String, PathBuf> {
    let reader = section.reader();
    let must_exist = reader.environment().runs_handlers();
    let read_entry = |(guest, value): (&Spanned<Cow<'_, str>>, &Value<'_>)| {
        let path = guest.get_ref().as_ref();
        let checked = check_guest_path(path);
        if let Err(why) = checked {
            let hint = "write an absolute guest path, such as \"/data\"";
            reader.refuse(Some(guest.span()), format!("`dirs`: {path:?} {why}"), hint);
        }
        let host = reader.path(path, value)?;
        if must_exist && let Err(error) = check_host_path(&host) {
            reader.await_change(&host);
            let title =
                format!("`dirs`: {} cannot be read as a directory: {error}", host.display());
            reader.refuse(Some(value.span()), title, "set a directory that this user can read");
            return None;
        }
        checked.is_ok().then(|| (path.to_owned(), host))
    };
    let entries = section.table("dirs").into_iter().flatten();
    entries.filter_map(read_entry).collect()
}

/// Checks a guest path.
///
/// # Errors
/// What is wrong, as a predicate that follows the path in a message.
pub(crate) fn check_guest_path(path: &str) -> Result<(), &'static str> {
    let Some(rest) = path.strip_prefix('/') else { return Err("does not start with '/'") };
    if path.len() > PATH_BYTES_MAX {
        return Err("is longer than 1024 bytes");
    }
    if path.contains('\0') {
        return Err("contains a NUL byte");
    }
    let odd = |part: &str| matches!(part, "" | "." | "..");
    if !rest.is_empty() && rest.split('/').any(odd) {
        return Err("contains an empty part, '.' or '..'");
    }
    Ok(())
}

/// Checks that a host directory can be read now.
///
/// # Errors
/// Those of [`std::fs::read_dir`].
pub(crate) fn check_host_path(path: &Path) -> std::io::Result<()> {
    std::fs::read_dir(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_paths_have_one_spelling() {
        for path in ["/", "/data", "/data/zones.d", "/..data", "/a b"] {
            assert_eq!(check_guest_path(path), Ok(()), "{path}");
        }
        for path in ["", "data", "./data", "//", "/data/", "/data//x", "/./x", "/x/..", "/a\0b"] {
            assert!(check_guest_path(path).is_err(), "{path:?}");
        }
        assert!(check_guest_path(&format!("/{}", "x".repeat(PATH_BYTES_MAX))).is_err());
    }
}
