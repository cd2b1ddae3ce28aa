//! Runs the commands of the README and compares their output with it.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::process::{Command, Stdio};

use duebox_shop::Shop;

/// The shell commands of a page, in order.
fn commands(page: &str) -> String {
    let blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().concat()
}

/// Runs each line in one shell that marks the end of its output.
fn run(lines: &str, origin: &str) -> Vec<String> {
    let script = lines.lines().filter(|line| !line.is_empty());
    let script: Vec<String> = script.map(|line| format!("{line}\necho; echo ----\n")).collect();
    let script = script.concat().replace("http://127.0.0.1:7290", origin);
    let shell = Command::new("sh").args(["-e", "-c", &script]).stdin(Stdio::null()).output();
    let output = shell.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed.split("\n----\n").map(|part| part.trim().to_owned()).collect()
}

#[test]
fn the_readme_matches_its_commands() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shop = runtime.block_on(Shop::open(0, None)).unwrap();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let lines = commands(&page);
    let printed = run(&lines, &shop.origin());
    let mut promised = 0;
    for (line, printed) in lines.lines().filter(|line| !line.is_empty()).zip(&printed) {
        let Some((_, comment)) = line.rsplit_once("# ") else { continue };
        if comment.starts_with('{') {
            promised += 1;
            assert_eq!(printed, comment, "{line}");
        } else if comment.starts_with("HTTP/") {
            promised += 1;
            assert!(printed.starts_with(comment), "{line}: {printed}");
        }
    }
    assert_eq!(promised, 9);
    let ledger = page.split("```text\n").last().unwrap().split("```").next().unwrap();
    assert!(printed.contains(&ledger.trim().to_owned()), "{printed:#?}");
}
