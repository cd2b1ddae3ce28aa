//! The runbooks: each alert has one, each runbook has an alert, and the commands that it names exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use duebox_harness::duebox_binary;

const RUNBOOKS: &str = "docs/production/runbooks.md";

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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

#[test]
fn every_command_of_the_production_pages_exists() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/production");
    let mut commands = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        // In code: `duebox WORD …`, or a line of a block.
        for code in text.split('`').skip(1).step_by(2).chain(text.lines()) {
            let word = code.trim().strip_prefix("duebox ").and_then(|rest| rest.split(' ').next());
            commands.extend(word.map(str::to_owned));
        }
    }
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        let output = Command::new(duebox_binary()).args(["help", &command]).output().unwrap();
        assert!(output.status.success(), "there is no command duebox {command}");
    }
}
