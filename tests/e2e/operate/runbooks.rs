//! The pages for production: each alert has a runbook and each runbook an alert, and the commands with their
//! flags, the metrics, the keys of the manifest and the log lines that the pages name exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use duebox_harness::duebox_binary;

const RUNBOOKS: &str = "docs/production/runbooks.md";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn file(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What the pages for production show as code: each span, and each line, because a block is not a span.
fn code() -> BTreeSet<String> {
    let mut code = BTreeSet::new();
    for entry in fs::read_dir(path("docs/production")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let spans = text.split('`').skip(1).step_by(2);
        code.extend(spans.chain(text.lines()).map(|code| code.trim().to_owned()));
    }
    code
}

#[test]
fn every_alert_has_a_runbook_and_links_to_it() {
    let rules = file("examples/observability/alerts.yml");
    let pages = file(RUNBOOKS);
    let named = |text: &str, prefix: &str| -> BTreeSet<String> {
        text.lines()
            .filter_map(|line| line.trim().strip_prefix(prefix))
            .map(str::to_owned)
            .collect()
    };
    let alerts = named(&rules, "- alert: ");
    assert_eq!(
        alerts,
        named(&pages, "## ").into_iter().filter(|name| name.starts_with("Duebox")).collect()
    );
    for alert in &alerts {
        let link = format!("{RUNBOOKS}#{}", alert.to_lowercase());
        assert!(rules.contains(&link), "{alert} has no runbook_url that ends with {link}");
        let page = pages.split(&format!("\n## {alert}\n")).nth(1).unwrap();
        let page = page.split("\n## ").next().unwrap();
        for part in ["**You see**", "**Run**", "**Expect**"] {
            assert!(page.contains(part), "{alert} has no {part}");
        }
    }
}

/// The words that choose a command, as in `dead list`: arguments are in capitals or begin with a sign.
fn words(command: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    command.split(' ').take_while(|word| is_word(word) && !word.starts_with('-')).collect()
}

#[test]
fn every_command_and_flag_of_the_production_pages_exists() {
    let code = code();
    let commands: Vec<&str> = code.iter().filter_map(|code| code.strip_prefix("duebox ")).collect();
    assert!(commands.len() > 12, "{commands:?}");
    for command in commands {
        let words = words(command);
        let output = Command::new(duebox_binary()).arg("help").args(&words).output().unwrap();
        assert!(output.status.success(), "there is no command duebox {}", words.join(" "));
        let help = String::from_utf8(output.stdout).unwrap();
        let known: BTreeSet<&str> = help
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with("--"))
            .collect();
        for flag in command.split(' ').filter(|word| word.starts_with("--")) {
            assert!(known.contains(flag), "duebox {} has no {flag}", words.join(" "));
        }
    }
}

#[test]
fn every_metric_of_the_production_pages_exists() {
    let code = code();
    let metrics: Vec<&String> = code.iter().filter(|code| code.starts_with("duebox_")).collect();
    let reference = file("docs/reference/metrics.md");
    assert!(metrics.len() > 2, "{metrics:?}");
    for metric in metrics {
        assert!(reference.contains(&format!("`{metric}`")), "there is no metric {metric}");
    }
}

#[test]
fn every_key_of_the_production_pages_exists() {
    let reference = file("docs/reference/manifest.md");
    let mut count = 0;
    for code in code() {
        let name = code.split(" = ").next().unwrap();
        let Some((section, key)) = name.split_once('.') else { continue };
        if !["redis", "runner", "server"].contains(&section) || key == "conf" {
            continue;
        }
        let part = reference.split(&format!("\n## `[{section}]`")).nth(1).unwrap();
        let part = part.split("\n## ").next().unwrap();
        assert!(part.contains(&format!("\n| `{key}`")), "the manifest has no key {name}");
        count += 1;
    }
    assert!(count > 6, "{count} keys");
}

/// Whether a source of the runner contains the text.
fn is_logged(text: &str, folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.extension() {
            None => path.is_dir() && is_logged(text, &path),
            Some(extension) => {
                extension == "rs" && fs::read_to_string(&path).unwrap().contains(text)
            }
        }
    })
}

#[test]
fn the_log_lines_that_runbooks_quote_are_written() {
    let page = file(RUNBOOKS);
    for line in ["the manifest is reloaded", "the lease was lost", "panicked"] {
        assert!(page.contains(&format!("`{line}`")), "no runbook quotes `{line}` any more");
        assert!(is_logged(line, &path("runner/src")), "nothing logs `{line}`");
    }
}
