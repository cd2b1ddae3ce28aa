//! The `duebox` binary: says what the command line asks for and exits with its code.

use std::process::ExitCode;

fn main() -> ExitCode {
    duebox::cli::main()
}
