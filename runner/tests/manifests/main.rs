//! Reading manifests. `tests/manifests/NAME.err` is the expected report for `NAME.toml`.
//!
//! A manifest without an `.err` must be accepted. `DUEBOX_BLESS=1 cargo test -p duebox --release
//! --test manifests` rewrites the `.err` files; read the diff before you commit it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

mod overrides;
mod reference;
mod reports;
mod values;

use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox::manifest::{Environment, Flags, Manifest};
use duebox_job::TopicName;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/manifests")
}

/// The environment of every snapshot.
fn environment() -> Environment {
    let variables = [("REGION", "eu"), ("EMPTY", ""), ("REDIS_PASSWORD", "hunter2")];
    Environment::new(
        Flags::default(),
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())),
    )
}

fn diagnose(file: &Path) -> Result<Manifest, String> {
    let text = std::fs::read_to_string(file).unwrap();
    let name = Path::new(file.file_name().unwrap());
    Manifest::parse(name, text, &environment()).map_err(|error| format!("{error}\n"))
}

/// Reads a manifest that must be accepted.
fn accepted(name: &str) -> Manifest {
    diagnose(&folder().join(name)).unwrap()
}

fn name(text: &str) -> TopicName {
    TopicName::new(text).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
