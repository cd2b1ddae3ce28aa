//! Runs the commands of a page in a shell, as a reader types them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a block of commands until one fails, with `folder` as the working directory and `bin` first on the search
/// path; returns what it printed. Fails the test if a command fails.
pub(crate) fn run(block: &str, folder: &Path, bin: &Path, variables: &[(&str, &str)]) -> String {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-e", "-c", block])
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "this block fails:\n{block}\n{out}\n{failed}");
    out
}
