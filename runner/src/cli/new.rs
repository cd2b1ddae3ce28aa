//! `duebox new`: starts the project of a handler, with its SDK in it.

mod files;
mod staging;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use self::files::project_files;
use super::project::{HandlerLanguage, tools};
use super::support::failure::Failure;
use super::support::output;
use crate::redis_host::managed;

/// The longest name of a project, which becomes the name of a topic, a crate and a package.
const NAME_MAX: usize = 64;

/// Start the project of a handler in a language
///
/// Writes a handler that runs, the manifest that binds it to a topic with the name of the folder,
/// and the SDK of the language. The project needs nothing but the language's own tools: what is
/// missing on this machine is named. TypeScript, Python and WAT need no tools at all.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox new rust order-close && cd order-close && duebox build && duebox run
  duebox new typescript order-close && cd order-close && duebox run

Exit codes:
  0  the project is written; a warning says if a tool is missing
  1  a file cannot be written
  2  the folder is not empty, its name cannot be that of a handler, or --no-vendor is
     given: nothing was written")]
pub(super) struct NewArgs {
    /// The language of the handler
    #[arg(value_name = "LANG")]
    language: HandlerLanguage,
    /// The folder of the project; created if it does not exist
    ///
    /// Its name becomes the name of the topic: small letters, digits and -.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Put the SDK into the project; the default until the SDKs are published
    #[arg(long, overrides_with = "no_vendor")]
    vendor: bool,
    /// Take the SDK from the registry of the language; refused until the SDKs are published
    #[arg(long)]
    no_vendor: bool,
}

pub(super) fn new(args: &NewArgs) -> Result<ExitCode, Failure> {
    if args.no_vendor && !args.vendor {
        return Err(not_published(args.language));
    }
    let name = project_name(&args.dir)?;
    staging::write(&args.dir, &project_files(args.language, &name))?;
    output::print(&next_steps(args, &name))?;
    if let Some(tools::MissingTool { what, remedy }) = tools::missing(args.language, &args.dir) {
        output::print_aside(&format!(
            "warning: {what} is missing, and `duebox build` needs it\nhint: {remedy}"
        ));
    }
    if !managed::is_installed() {
        output::print_aside(
            "warning: neither redis-server nor valkey-server is installed, and `duebox run` starts \
             one\nhint: install one (apt-get install redis-server), or set redis.url in duebox.toml",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Why the SDK of a language cannot come from a registry.
fn not_published(language: HandlerLanguage) -> Failure {
    let why = match language.registry() {
        Some(registry) => format!("the SDK of {} is not on {registry} yet", language.name()),
        None => format!("handlers in {} have no package in a registry", language.name()),
    };
    Failure::bad_input(
        format!("{why}; nothing was written"),
        "leave --no-vendor out: the project then has the SDK in its folder sdk",
    )
}

/// The name of the folder, if a handler can have it.
fn project_name(dir: &Path) -> Result<String, Failure> {
    let path = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    // `.` and `..` have no name of their own.
    let path = path.canonicalize().unwrap_or(path);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_allowed =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let starts_well = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    if starts_well && name.len() <= NAME_MAX && name.chars().all(is_allowed) {
        return Ok(name);
    }
    Err(Failure::bad_input(
        format!("{name:?} cannot be the name of a handler; nothing was written"),
        "name a folder with small letters, digits and -, such as order-close",
    ))
}

fn next_steps(args: &NewArgs, name: &str) -> String {
    let enter = match args.dir == Path::new(".") {
        true => String::new(),
        false => format!("  cd {}\n", args.dir.display()),
    };
    let build = match args.language.is_compiled() {
        true => "  duebox build              # compiles the handler, and checks it\n",
        false => "",
    };
    let payload =
        if args.language == HandlerLanguage::Wat { "Ada" } else { "'{\"name\":\"Ada\"}'" };
    format!(
        "wrote a handler in {} to {}\n\nnext:\n{enter}  duebox dev                # all of it in one terminal, again after each change\n\n\
         or one by one:\n{build}  duebox run                # serves the topic {name}, and \
         starts a Redis of its own\n  duebox push {name} {payload}     # in a second terminal",
        args.language.name(),
        args.dir.display()
    )
}
