//! Writes the hostile modules as binaries into the given folder, as the initial corpus of the
//! target `load`. It does not use the library, which does not link without libFuzzer.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| io::Error::other("usage: seed FOLDER"))?;
    fs::create_dir_all(&folder)?;
    let hostile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hostile");
    for entry in fs::read_dir(hostile)? {
        let path = entry?.path();
        let binary = wat::parse_file(&path).map_err(io::Error::other)?;
        if let Some(name) = path.file_stem() {
            fs::write(folder.join(name), binary)?;
        }
    }
    Ok(())
}
