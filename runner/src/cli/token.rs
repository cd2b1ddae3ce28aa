//! `duebox token new`: makes a token for the API and its entry in the file of tokens.

use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::support::failure::Failure;
use super::support::output;
use crate::auth::tokens::{self, Scope, Tokens};

/// Make tokens for the API
#[derive(Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Subcommand)]
enum TokenCommand {
    New(NewArgs),
}

/// Make a token and its entry for the file of tokens (server.tokens)
///
/// The token is printed once and not stored. The printed entry contains only its SHA-256; append it
/// to the file of tokens.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox token new shop --scopes push --topics 'order.*'
  duebox token new operator --scopes admin --topics '*' --json

Exit codes:
  0  success
  1  the system provides no random bytes
  2  bad input")]
struct NewArgs {
    /// Name of the token: shown in the log and as the holder of jobs
    name: String,
    /// Scopes of the token
    #[arg(long, value_delimiter = ',', required = true)]
    scopes: Vec<ScopeWord>,
    /// Topics of the token: names, or prefixes with a final *
    #[arg(long, value_delimiter = ',', required = true)]
    topics: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A scope on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum ScopeWord {
    /// Push, cancel and reschedule jobs
    Push,
    /// Pull, settle and extend jobs
    Consume,
    /// Read jobs with their payloads, results and failures
    Read,
    /// Read the metrics and the details of the probes
    Metrics,
    /// Everything
    Admin,
}

impl ScopeWord {
    fn scope(self) -> Scope {
        match self {
            Self::Push => Scope::Push,
            Self::Consume => Scope::Consume,
            Self::Read => Scope::Read,
            Self::Metrics => Scope::Metrics,
            Self::Admin => Scope::Admin,
        }
    }
}

pub(super) fn token(args: &TokenArgs) -> Result<ExitCode, Failure> {
    let TokenCommand::New(NewArgs { name, scopes, topics, json }) = &args.command;
    let (token, hash) = tokens::make().map_err(|error| {
        Failure::failed(format!("no random bytes: {error}"), "check getrandom(2) on this machine")
    })?;
    let scopes: Vec<&str> = scopes.iter().map(|word| word.scope().word()).collect();
    // JSON strings and arrays are also valid TOML.
    let table = format!(
        "[{}]\nsha256 = \"{hash}\"\nscopes = {}\ntopics = {}",
        output::json(name)?,
        output::json(&scopes)?,
        output::json(topics)?,
    );
    Tokens::parse(&table)
        .map_err(|error| Failure::bad_input(error.to_string(), "see duebox help token new"))?;
    if *json {
        output::print_json(&json!({"name": name, "token": token, "table": table}))?;
    } else {
        output::print(&format!(
            "token (shown once):\n\n  {token}\n\nfor the file of tokens (server.tokens):\n\n{table}"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
