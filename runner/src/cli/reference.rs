//! Holds docs/reference/cli.md to the commands: it has each command and each option, and no option that there is not.

use std::collections::BTreeSet;

use clap::{Command, CommandFactory};

use super::Cli;

const PAGE: &str = include_str!("../../../docs/reference/cli.md");

/// The commands that the first table names, each with the anchor of its section.
fn listed() -> Vec<(&'static str, &'static str)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| [`"));
    let cells = rows.map(|line| line.split('|').nth(1).unwrap());
    let links = cells.flat_map(|cell| cell.split(')')).filter_map(|link| link.split_once("](#"));
    links
        .flat_map(|(names, anchor)| {
            names.split('`').skip(1).step_by(2).map(move |name| (name, anchor))
        })
        .collect()
}

/// The section with this anchor.
fn section(anchor: &str) -> &'static str {
    let sections = PAGE.split("\n## ").skip(1);
    let is_it = |text: &&str| text.lines().next().unwrap().replace(", ", "-") == anchor;
    sections.into_iter().find(is_it).unwrap_or_else(|| panic!("no section {anchor}"))
}

/// The long options of a command and of the commands below it, without those of every command.
fn options(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_global_set());
    let own = own.filter_map(|arg| arg.get_long()).filter(|name| *name != "help");
    let own = own.map(|name| format!("--{name}"));
    own.chain(command.get_subcommands().flat_map(options)).collect()
}

/// The options that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let is_option = |word: &&str| {
        word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic))
    };
    words.filter(is_option).map(str::to_owned).collect()
}

#[test]
fn the_reference_has_every_command_with_its_options() {
    let all = Cli::command();
    let commands: Vec<&Command> =
        all.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let listed = listed();
    let names: BTreeSet<&str> = listed.iter().map(|(name, _)| *name).collect();
    let own: BTreeSet<&str> = commands.iter().map(|command| command.get_name()).collect();
    assert_eq!(names, own);
    let common: BTreeSet<String> =
        all.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
    for (name, anchor) in &listed {
        let text = named(section(anchor));
        let command = commands.iter().find(|command| command.get_name() == *name).unwrap();
        let missing: Vec<_> = options(command).difference(&text).cloned().collect();
        assert!(missing.is_empty(), "docs/reference/cli.md, {name}, does not name {missing:?}");
    }
    // What a section names is an option of some command, as sections also name those of others.
    let mut known: BTreeSet<String> =
        commands.iter().flat_map(|command| options(command)).collect();
    known.extend(common);
    // The last two are those of cargo, which `duebox build` runs.
    known.extend(["--help", "--version", "--release", "--target"].map(str::to_owned));
    let unknown: Vec<_> = named(PAGE).difference(&known).cloned().collect();
    assert!(unknown.is_empty(), "docs/reference/cli.md names {unknown:?}");
}
