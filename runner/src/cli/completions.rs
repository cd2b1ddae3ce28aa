//! `duebox completions` and `duebox manual`: what shells and `man` know of the command line.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::support::failure::Failure;
use super::support::output;

/// Print the completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox completions bash > ~/.local/share/bash-completion/completions/duebox
  duebox completions fish > ~/.config/fish/completions/duebox.fish
  duebox completions zsh > ~/.zfunc/_duebox")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "duebox", &mut script);
    output::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Write the manual pages: duebox.1 and one for each command
#[derive(Args)]
pub(super) struct ManualArgs {
    /// The folder of the pages; created if it does not exist
    dir: PathBuf,
}

pub(super) fn manual(args: &ManualArgs) -> Result<ExitCode, Failure> {
    let written = fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.dir));
    written.map_err(|error| {
        Failure::failed(
            format!("the manual cannot be written to {}: {error}", args.dir.display()),
            "name a folder that this user can write",
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
