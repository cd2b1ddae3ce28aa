//! The page "Your first handler": its manifest is served, and its commands do what it says. The handler is compiled
//! from the template, as the page does it.

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
    let [build, invoke, check, push, dead] = &commands[..] else { panic!("{commands:#?}") };
    assert!(check.ends_with("duebox run\n"), "{check}");

    // The project is created outside the repository, so that it leaves nothing behind.
    let project = dir.path().join("hello").display().to_string();
    let build = build.replace(" hello", &format!(" {project}"));
    run(&build, Path::new(ROOT));
    let built = Path::new(ROOT).join("handlers/build/hello.wasm");
    let module = dir.path().join("hello.wasm");
    fs::copy(&built, &module).unwrap();
    fs::remove_file(&built).unwrap();
    let printed = run(
        &invoke.replace("handlers/build/hello.wasm", &module.display().to_string()),
        dir.path(),
    );
    assert!(printed.starts_with("verdict  ack"), "{printed}");

    fs::write(dir.path().join("duebox.toml"), &blocks("toml")[0]).unwrap();
    let printed = run("duebox check", dir.path());
    assert!(printed.contains("greeting"), "{printed}");
    let mut daemon = Daemon::start_with(&dir.path().join("duebox.toml"), |command| {
        command.current_dir(dir.path());
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    run(push, dir.path());
    daemon.wait_for_line("the greeting", |line| line.message() == "Moin, Ada! (attempt 1 of 8)");
    duebox_harness::eventually("both jobs are settled", || verdicts(&daemon).len() == 2);
    let printed = run(dead, dir.path());
    assert!(printed.contains("expected ident"), "{printed}");
    assert!(daemon.terminate().success());
}
