//! The manifests and the defaults of the documentation agree with the code.

use std::path::Path;

use duebox::manifest::Manifest;
use duebox_job::FailureClass;

use super::environment;

#[test]
fn the_manifest_of_the_docs_is_accepted() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/manifest.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let parsed = Manifest::parse(Path::new("docs"), example.to_owned(), &environment());
    assert_eq!(parsed.unwrap().topics.len(), 1);
}

#[test]
fn every_manifest_of_the_sandbox_guide_is_accepted_and_every_class_is_named() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/sandbox.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let examples: Vec<&str> =
        docs.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 5, "only {} examples", examples.len());
    for example in examples {
        let elsewhere = environment().without_handlers();
        let parsed = Manifest::parse(Path::new("docs"), example.to_owned(), &elsewhere);
        assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
    }
    for class in FailureClass::ALL {
        assert!(docs.contains(&format!("`{}`", class.name())), "{}", class.name());
    }
}

/// The tables of a topic's keys.
const TOPIC_GROUPS: [&str; 6] = [
    "### Handler",
    "### Attempts",
    "### Pushes",
    "### Concurrency, rate and order",
    "### Retention",
    "### Deployment",
];

/// The rows of the table under a heading of the manifest's reference, each with its cells.
fn table_of(docs: &str, heading: &str) -> Vec<Vec<String>> {
    let mut lines = docs.lines().skip_while(|line| !line.starts_with(heading));
    assert!(lines.next().is_some(), "no heading {heading}");
    let section = lines.take_while(|line| !line.starts_with('#'));
    let rows = section.filter(|line| line.starts_with("| `"));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect())
        .collect()
}

/// The lines `key = default` of a table. A default that is a description has no line.
fn defaults_of(docs: &str, heading: &str) -> String {
    let line = |row: Vec<String>| {
        let key = row[0].split('`').nth(1)?.to_owned();
        let default = row[1].strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let is_value = !default.contains('`') && !default.starts_with('$');
        is_value.then(|| format!("{key} = {default}\n"))
    };
    table_of(docs, heading).into_iter().filter_map(line).collect()
}

#[test]
fn the_defaults_of_the_reference_are_those_of_the_code() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/manifest.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let parse = |text: String| Manifest::parse(Path::new("m.toml"), text, &environment()).unwrap();
    let schedule = "[[schedules]]\nname = \"s\"\ntopic = \"a\"\ncron = \"0 * * * *\"\n";
    let topic = "[topics.a]\nhandler = \"a.wasm\"\n";
    let policies = table_of(&docs, "### on").into_iter().flat_map(|row| {
        let policy = row[1].trim_matches('`').to_owned();
        let classes: Vec<String> =
            row[0].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        classes.into_iter().map(move |class| format!("{class} = \"{policy}\"\n"))
    });
    let policies: Vec<String> = policies.collect();
    assert_eq!(policies.len(), FailureClass::ALL.len());
    let defaults = |heading| {
        let lines = defaults_of(&docs, heading);
        assert!(lines.lines().count() >= 2, "{heading}: {lines}");
        lines
    };
    let written = format!(
        "[redis]\n{}[runner]\n{}[server]\n{}{topic}{}[topics.a.on]\n{}[topics.a.sandbox]\n{}{schedule}{}",
        defaults("## `[redis]`"),
        defaults("## `[runner]`"),
        defaults("## `[server]`"),
        TOPIC_GROUPS.map(defaults).concat(),
        policies.concat(),
        defaults("## `[topics.NAME.sandbox]`"),
        defaults("## `[[schedules]]`"),
    );
    assert_eq!(parse(written), parse(format!("{topic}{schedule}")));
}
