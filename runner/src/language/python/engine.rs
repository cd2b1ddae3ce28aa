//! The file of the engine, which is next to the program: it is too large to be part of it.
//!
//! Invariant: the file is read again when it has changed, and a handler is loaded anew when its engine appears or
//! changes.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use duebox_sandbox::Digest;
use parking_lot::Mutex;

use super::super::Interpreter;
use super::super::error::SourceError;
use super::super::sources::Sources;
use crate::regular_file::{self, Fingerprint, fingerprint};

/// The name of the file in a folder of languages.
const FILE: &str = "python.wasm";
/// The largest engine, in bytes.
const BYTES_MAX: u64 = 256 << 20;

/// The folder that the manifest names (`runner.languages`).
static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The engine as it was last read.
static READ: Mutex<Option<Engine>> = Mutex::new(None);

struct Engine {
    path: PathBuf,
    fingerprint: Option<Fingerprint>,
    module: Bytes,
    digest: Digest,
}

/// Sets the folder in which the engines of languages are. With `None` they are next to the program.
pub fn look_for_engine_in(folder: Option<&Path>) {
    *FOLDER.lock() = folder.map(Path::to_owned);
}

/// The engine, or where it was looked for. Where it may appear is remembered.
pub(super) fn read(sources: &mut Sources) -> Result<Interpreter, SourceError> {
    let named = FOLDER.lock().clone();
    let places = match &named {
        Some(folder) => vec![folder.join(FILE)],
        None => env::current_exe().map(|program| places(&program)).unwrap_or_default(),
    };
    places.iter().for_each(|path| sources.look_at(path));
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        return Err(SourceError::NoEngine { looked_at: places });
    };
    let unreadable = |error| SourceError::Unreadable { path: path.clone(), error };
    let engine = engine(path).map_err(unreadable)?;
    Ok(engine)
}

fn engine(path: &Path) -> io::Result<Interpreter> {
    let mut read = READ.lock();
    let now = fingerprint(path);
    let engine = match read.take() {
        Some(known) if known.path == path && known.fingerprint == now => known,
        _ => {
            let module = Bytes::from(regular_file::read(path, BYTES_MAX)?);
            let digest = Digest::of(&module);
            Engine { path: path.to_owned(), fingerprint: now, module, digest }
        }
    };
    let (module, digest) = (engine.module.clone(), engine.digest);
    *read = Some(engine);
    Ok(Interpreter { module, digest })
}

/// Where the engine of this program may be: next to it, where a package puts it, and in a checkout.
fn places(program: &Path) -> Vec<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new("/"));
    let mut places = vec![folder.join("languages").join(FILE)];
    places.extend(folder.parent().map(|above| above.join("lib/duebox").join(FILE)));
    let target = program.ancestors().find(|it| it.file_name().is_some_and(|it| it == "target"));
    let checkout = target.and_then(Path::parent);
    places.extend(checkout.map(|checkout| checkout.join("sdk/python/build/engine.wasm")));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_next_to_its_program_or_in_the_checkout() {
        let paths = |program: &str| {
            let found = places(Path::new(program)).into_iter();
            found.map(|path| path.display().to_string()).collect::<Vec<String>>()
        };
        assert_eq!(
            paths("/usr/bin/duebox"),
            ["/usr/bin/languages/python.wasm", "/usr/lib/duebox/python.wasm"]
        );
        let checkout = paths("/home/ada/duebox/target/release/duebox");
        assert_eq!(checkout[2], "/home/ada/duebox/sdk/python/build/engine.wasm");
    }
}
