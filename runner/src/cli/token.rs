//! `duebox token new`: a token for the API, and the table that stands for it in the file of tokens.

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

/// Make a token, and the table for the file of tokens (server.tokens)
///
/// The token is shown once and kept nowhere; the table holds only its SHA-256. Give the token to who is to
/// use it, and append the table to the file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox token new shop --scopes push --topics 'order.*'
  duebox token new operator --scopes admin --topics '*' --json

Exit codes:
  0  made
  1  the machine gave no random bytes
  2  bad input")]
struct NewArgs {
    /// Its name: shown in the log, and as the holder of jobs
    name: String,
    /// What it allows
    #[arg(long, value_delimiter = ',', required = true)]
    scopes: Vec<ScopeWord>,
    /// The topics that it is for: names, or prefixes with * at the end
    #[arg(long, value_delimiter = ',', required = true)]
    topics: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a token allows.
#[derive(Clone, Copy, ValueEnum)]
enum ScopeWord {
    /// To push jobs, and to cancel, reschedule and run them
    Push,
    /// To pull jobs, and to settle and extend them
    Consume,
    /// Everything
    Admin,
}

impl ScopeWord {
    fn scope(self) -> Scope {
        match self {
            Self::Push => Scope::Push,
            Self::Consume => Scope::Consume,
            Self::Admin => Scope::Admin,
        }
    }
}

pub(super) fn token(args: &TokenArgs) -> Result<ExitCode, Failure> {
    let TokenCommand::New(NewArgs { name, scopes, topics, json }) = &args.command;
    let (token, hash) = tokens::make().map_err(|error| {
        Failure::failed(format!("no random bytes: {error}"), "look at /dev/urandom of this machine")
    })?;
    let scopes: Vec<&str> = scopes.iter().map(|word| word.scope().word()).collect();
    // JSON's texts and lists are TOML's too.
    let table = format!(
        "[{}]\nsha256 = \"{hash}\"\nscopes = {}\ntopics = {}",
        output::json(name)?,
        output::json(&scopes)?,
        output::json(topics)?,
    );
    Tokens::parse(&table).map_err(|why| Failure::bad_input(why, "see duebox help token new"))?;
    if *json {
        output::print_json(&json!({"name": name, "token": token, "table": table}))?;
    } else {
        output::print(&format!(
            "token, shown once:\n\n  {token}\n\nfor the file of tokens (server.tokens):\n\n{table}"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
