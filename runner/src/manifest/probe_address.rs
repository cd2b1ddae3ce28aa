//! The address at which a running daemon serves its probes.
//!
//! The manifest may have become invalid since the daemon started. A health check must still find the daemon,
//! so an invalid manifest is read as plain TOML.

use std::net::SocketAddr;
use std::path::Path;

use super::Manifest;
use super::environment::Environment;
use super::file::read_bounded;

/// The address of the probes, or else of the API. `None` if both are off or the file is not TOML.
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
