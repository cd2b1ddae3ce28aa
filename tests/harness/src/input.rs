//! Commands that read what a test gives them.

use std::io::{self, Write};
use std::process::{Command, Output, Stdio};

/// Runs a command to its end with this input on stdin. A command may end without reading it: that closes the pipe and
/// is not an error.
///
/// # Errors
/// If the command cannot be started, or its output cannot be read.
pub fn output_with(command: &mut Command, input: &[u8]) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // On a thread of its own, because a command waits while its output is not read.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    })
}
