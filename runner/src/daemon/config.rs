//! What the daemon is built from: the manifest, checked whole, and the environment that it was read in,
//! which a reload reads it in again.

use std::path::Path;

use duebox_sandbox::SandboxConfig;

use crate::deploy::modules;
use crate::manifest::{Environment, Manifest, ManifestError};

/// A manifest and the environment that it was read in.
#[derive(Debug)]
pub struct Config {
    pub(super) manifest: Manifest,
    pub(super) environment: Environment,
}

impl Config {
    /// Reads the manifest at `path`, and checks all of it.
    ///
    /// # Errors
    /// [`ManifestError`] with every problem of the manifest.
    pub fn load(path: &Path, environment: Environment) -> Result<Self, ManifestError> {
        Ok(Self { manifest: Manifest::load_with(path, &environment)?, environment })
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// A sandbox that has room for the largest handler.
    pub(super) fn sandbox(&self) -> SandboxConfig {
        modules::sandbox_config(&self.manifest)
    }
}
