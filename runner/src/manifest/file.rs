//! The file of a manifest, or of cases.

use std::path::Path;

use super::problem::ManifestError;
use crate::regular_file;

/// The largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// The folder that relative paths of the manifest start from.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Reads a text file of at most [`MANIFEST_BYTES_MAX`].
pub(super) fn read_bounded(path: &Path) -> Result<String, ManifestError> {
    let unreadable = |error: &std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "set --manifest FILE or DUEBOX_MANIFEST; the default is ./duebox.toml"
            }
            _ => "set --manifest FILE or DUEBOX_MANIFEST to a readable file",
        };
        ManifestError::of_file(path, format!("cannot read the manifest: {error}"), hint)
    };
    let bytes = regular_file::read(path, MANIFEST_BYTES_MAX + 1);
    let bytes = bytes.map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(ManifestError::of_file(
            path,
            "the manifest is larger than 1 MiB".to_owned(),
            "check that the path is that of a manifest",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let title = format!("the manifest is not UTF-8 text: invalid byte at offset {at}");
        ManifestError::of_file(path, title, "save the file in UTF-8")
    })
}
