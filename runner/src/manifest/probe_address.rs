//! Where a running daemon is asked how it is, read out of a manifest that may have become bad since: who asks
//! whether the daemon lives is not to hear that a file has a mistake.

use std::net::SocketAddr;
use std::path::Path;

use super::environment::Environment;
use super::{Manifest, read_bounded};

/// The address of the probes, or else of the API; none if there is neither, or the file is no TOML.
pub fn probed_address(path: &Path, environment: &Environment) -> Option<SocketAddr> {
    if let Ok(manifest) = Manifest::load_with(path, &environment.clone().without_handlers()) {
        return manifest.server.probes.or(manifest.server.listen);
    }
    let table: toml::Table = toml::from_str(&read_bounded(path).ok()?).ok()?;
    let written = |key| {
        let text = table.get("server")?.get(key)?.as_str()?;
        environment.expand(text).ok()?.parse().ok()
    };
    let listen =
        environment.listen().map_or_else(|| written("listen"), |over| over.text.parse().ok());
    written("probes").or(listen)
}
