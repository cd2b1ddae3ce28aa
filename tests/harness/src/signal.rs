//! Signals to processes that a test owns, through the shell's own `kill`: no unsafe code, and
//! it is there on every machine that has a shell.

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
