//! The page docs/reference/http.md: it lists every path of the API, and its commands run in their order. Only the
//! address, the waits and the lease token differ from the page.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::client::{fixture, get};

const TOPICS: &str = "[topics.mail]\n[server]\ncors = [\"https://shop.example\"]\n";

/// The commands of the page by block, each with the documented response.
fn commands() -> Vec<Vec<(String, String)>> {
    let page = include_str!("../../../docs/reference/http.md");
    let mut blocks = Vec::new();
    for block in page.split("\n```\n$ ").skip(1) {
        let block = block.split("\n```").next().unwrap().replace("\\\n", " ");
        let mut commands = Vec::new();
        for command in block.split("\n$ ") {
            let (command, shown) = command.split_once('\n').unwrap_or((command, ""));
            commands.push((command.to_owned(), shown.to_owned()));
        }
        blocks.push(commands);
    }
    blocks
}

fn typed(command: &str) -> String {
    let output = Command::new("sh").args(["-e", "-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}\n{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_work_as_documented() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let blocks = commands();
    let [jobs, selected, tokens, pages, protocol] = &blocks[..] else { panic!("{blocks:#?}") };
    let here = |command: &str| {
        let command = command.replace("localhost:7280", &at.to_string());
        command.replace(r#""in":"30m""#, r#""in":"1s""#).replace(r#""delay":30"#, r#""delay":1"#)
    };
    let answer = |command: &str| -> Value { serde_json::from_str(&typed(&here(command))).unwrap() };

    let [push, look, pull, ack] = &jobs[..] else { panic!("{jobs:#?}") };
    assert_eq!(typed(&here(&push.0)), push.1);
    assert_eq!(answer(&look.0)["state"], "pending");
    let pulled = answer(&pull.0);
    assert_eq!(
        (&pulled["jobs"][0]["id"], pulled["jobs"].as_array().unwrap().len()),
        (&json!("42"), 1)
    );
    let token = pulled["jobs"][0]["token"].as_str().unwrap();
    assert_eq!(answer(&ack.0.replace("1763742600123456", token))["id"], "42");

    // Both ids are not dead here, so both are left.
    let [requeue] = &selected[..] else { panic!("{selected:#?}") };
    let shown: Value = serde_json::from_str(&requeue.1).unwrap();
    let left = answer(&requeue.0);
    assert_eq!((&left["done"], &left["left"][1]), (&json!(0), &shown["left"][0]));

    let [made] = &tokens[..] else { panic!("{tokens:#?}") };
    let words: Vec<&str> = made.0.split(' ').map(|word| word.trim_matches('\'')).collect();
    assert!(fixture.duebox(&words[1..]).contains("order.*"));

    let [preflight] = &pages[..] else { panic!("{pages:#?}") };
    let head = typed(&here(&preflight.0)).to_lowercase();
    assert!(head.contains("access-control-allow-origin: https://shop.example\r\n"), "{head}");

    let answers: Vec<Value> = protocol.iter().map(|(command, _)| answer(command)).collect();
    let [added, popped, finished, deleted] = &answers[..] else { panic!("{answers:#?}") };
    assert!(
        [added, popped, finished].iter().all(|answer| answer["success"] == true),
        "{answers:#?}"
    );
    assert_eq!(popped["value"], json!({ "to": "a@example.org" }));
    assert_eq!(
        (&deleted["success"], &deleted["error"]),
        (&json!(false), &json!("no job has this id"))
    );
}

/// The calls that a cell of the page's table lists. It shortens them: `POST …/jobs/{id}/ack`, `/nack` is two paths that
/// end so, and `GET`, `DELETE /a` is two methods of one path.
fn listed(cell: &str) -> Vec<(String, String)> {
    let (mut methods, mut before) = (Vec::new(), String::new());
    let (mut calls, mut has_path) = (Vec::new(), false);
    for word in cell.split('`').skip(1).step_by(2).flat_map(|code| code.split(' ')) {
        if word.chars().all(|c| c.is_ascii_uppercase()) {
            if std::mem::take(&mut has_path) {
                methods.clear();
            }
            methods.push(word.to_owned());
            continue;
        }
        has_path = true;
        // A last part alone replaces that of the path before.
        let is_part = word.matches('/').count() == 1 && before.matches('/').count() > 1;
        let path = match before.rsplit_once('/') {
            Some((start, _)) if is_part => format!("{start}{word}"),
            _ => word.to_owned(),
        };
        calls.extend(methods.iter().map(|method| (method.clone(), path.clone())));
        before = path;
    }
    calls
}

#[test]
fn the_page_lists_every_path_of_the_api() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    let document = get(at, "/openapi.json").json();
    let mut served = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
        served.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    assert!(served.len() > 25, "{served:?}");
    let page = include_str!("../../../docs/reference/http.md");
    let table = page.split("| path | does | scope |").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: Vec<(String, String)> =
        cells.flat_map(|cell| listed(&format!("`{cell}"))).collect();
    let is_meant = |(method, path): &(String, String), (verb, text): &(String, String)| {
        let ends = text.strip_prefix('…').is_some_and(|end| path.ends_with(end));
        method == verb && (path == text || ends)
    };
    let forgotten: Vec<_> =
        served.iter().filter(|call| !listed.iter().any(|text| is_meant(call, text))).collect();
    assert!(forgotten.is_empty(), "docs/reference/http.md does not list {forgotten:?}: {listed:?}");
    // The page in the browser is HTML and not part of the API's document.
    let page = ("GET".to_owned(), "/".to_owned());
    let is_served =
        |text: &(String, String)| *text == page || served.iter().any(|call| is_meant(call, text));
    let invented: Vec<_> = listed.iter().filter(|text| !is_served(text)).collect();
    assert!(invented.is_empty(), "docs/reference/http.md lists {invented:?}");
}
