//! Signals to processes that a test owns, sent with the shell's `kill`: no unsafe code, and
//! available on every machine with a shell.

use std::process::Command;

/// Sends the signal with this name (without `SIG`) to a process.
#[track_caller]
pub fn send_signal(name: &str, pid: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -s {name} {pid}")])
        .status()
        .unwrap_or_else(|error| panic!("cannot run sh to signal process {pid}: {error}"));
    assert!(status.success(), "cannot send SIG{name} to process {pid}: {status}");
}
