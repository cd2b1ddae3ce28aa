//! The page "Your first handler": its manifest is served, and its commands do what it says. The handler is compiled
//! from the template, as the page does it. The handlers that the page shows are those of the templates.

use std::fs;
use std::path::Path;

use duebox_harness::{Daemon, duebox_binary};

use crate::support::log::verdicts;
use crate::support::shell;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The blocks of the page in one language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(ROOT).join("docs/guide/first-handler.md");
    let page = fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs a block in a shell with `duebox` on its path; returns what it printed.
fn run(block: &str, folder: &Path) -> String {
    shell::run(block, folder, duebox_binary().parent().unwrap(), &[])
}

#[test]
fn the_page_of_the_first_handler_works() {
    let dir = tempfile::Builder::new().prefix("duebox-hello-").tempdir().unwrap();
    let commands = blocks("sh");
    let [init, push, settled, change, check, build, push_greet] = &commands[..] else {
        panic!("{commands:#?}")
    };
    let init = init.strip_suffix("duebox run\n").unwrap();
    run(init, dir.path());
    let project = dir.path().join("hello");
    let handler = fs::read_to_string(project.join("hello.ts")).unwrap();
    assert!(handler.ends_with(&blocks("ts")[0]), "{handler}");
    let mut daemon = Daemon::start_with(&project.join("duebox.toml"), |command| {
        command.current_dir(&project);
    });
    daemon.wait_for_line("the schedule's", |line| line.message() == "Hello, world");

    run(push, &project);
    daemon.wait_for_line("the greeting", |line| line.message() == "Hello, Ada");
    let is_settled = |id: &str| verdicts(&daemon).iter().any(|verdict| verdict.id == id);
    duebox_harness::eventually("both are settled", || is_settled("ada") && is_settled("unnamed"));
    let printed = run(settled, &project);
    assert!(printed.contains("ada") && printed.contains("whom to greet?"), "{printed}");
    run(change, &project);
    daemon.wait_for_line("the changed one", |line| line.message() == "Moin, world");
    let printed = run(check, &project);
    assert!(printed.contains("verdict  ack") && printed.contains("Moin, Ada"), "{printed}");

    let inspected = run(build, dir.path());
    assert!(inspected.contains(" passed, 0 failed"), "{inspected}");
    assert!(inspected.contains("[topics.greet.sandbox]"), "{inspected}");
    let manifest = project.join("duebox.toml");
    let text = fs::read_to_string(&manifest).unwrap() + &blocks("toml")[0];
    fs::write(&manifest, text).unwrap();
    daemon.wait_for_line("bound", |line| line.message() == "serving" && line.has("topic", "greet"));
    run(push_greet, &project);
    daemon.wait_for_line("greeted", |line| line.message() == "Moin, Ada! (attempt 1 of 8)");
    duebox_harness::eventually("the other one is dead", || is_settled("bad"));
    assert!(daemon.terminate().success());
}

/// The handlers of the page, by the language of their block, and the template each one is from.
const SHOWN: [(&str, &str); 5] = [
    ("rust", "sdk/rust/template/src/lib.rs"),
    ("python", "sdk/python/template/handler.py"),
    ("go", "sdk/go/template/main.go"),
    ("typescript", "sdk/assemblyscript/template/assembly/index.ts"),
    ("c", "sdk/c/template/handler.c"),
];

#[test]
fn the_handlers_of_the_page_are_those_of_the_templates() {
    for (language, template) in SHOWN {
        let blocks = blocks(language);
        let [shown] = &blocks[..] else { panic!("{language}: {blocks:#?}") };
        let handler = fs::read_to_string(Path::new(ROOT).join(template)).unwrap();
        assert!(handler.contains(shown.trim_end()), "{template} does not have:\n{shown}");
    }
}

#[test]
fn the_projects_of_the_page_are_built_and_tested() {
    let dir = tempfile::Builder::new().prefix("duebox-greet-").tempdir().unwrap();
    let projects = blocks("sh project");
    assert_eq!(projects.len(), 4, "{projects:#?}");
    for project in &projects {
        let printed = run(project, dir.path());
        assert!(printed.contains(" passed, 0 failed"), "{project}{printed}");
    }
}
