//! Source handlers of huge files, and of endless imports: each is refused whole with a reason, or works, and no other
//! handler notices.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use duebox_conformance::{Attempt, Module};
use tempfile::TempDir;

const LANGUAGES: [&str; 2] = ["js", "py"];

/// A handler that acks, after these lines.
fn handler(language: &str, before: &str) -> String {
    match language {
        "js" => format!("{before}\nexport default () => {{}};\n"),
        _ => format!("{before}\ndef handle(payload): pass\n"),
    }
}

/// An import of the file `name` next to the handler.
fn import(language: &str, name: &str) -> String {
    match language {
        "js" => format!("import './{name}';\n"),
        _ => format!("import {name}\n"),
    }
}

/// A folder with a handler.
fn folder_of(language: &str, source: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("main.{language}"));
    fs::write(&path, source).unwrap();
    (folder, path)
}

/// The refusal of a handler with this source.
fn refusal(language: &str, source: &str) -> String {
    let (_folder, path) = folder_of(language, source);
    Module::refusal(&path)
}

fn next_is_acked(path: &Path) {
    job_is_acked(&Module::from_file(path, [].into()));
}

fn job_is_acked(module: &Module) {
    let run = module.run(&Attempt::new("{}"));
    assert_eq!(run.verdict(), "ack", "{run:?}");
}

#[test]
fn a_handler_of_too_many_files_is_refused() {
    const FILES: usize = 2_001;
    for language in LANGUAGES {
        let names = (0..FILES).map(|at| format!("m{at}"));
        let imports: String = names.clone().map(|name| import(language, &name)).collect();
        let (folder, path) = folder_of(language, &handler(language, &imports));
        for name in names {
            fs::write(folder.path().join(format!("{name}.{language}")), "").unwrap();
        }
        let text = Module::refusal(&path);
        assert!(text.contains("imports more than 2000 files"), "{language}: {text}");

        // Each imports the next: as many, found one after the other.
        for at in 0..FILES {
            let next = import(language, &format!("m{}", at + 1));
            fs::write(folder.path().join(format!("m{at}.{language}")), next).unwrap();
        }
        fs::write(&path, handler(language, &import(language, "m0"))).unwrap();
        let text = Module::refusal(&path);
        assert!(text.contains("imports more than 2000 files"), "{language}: {text}");

        // A circle is two files.
        fs::write(folder.path().join(format!("m1.{language}")), import(language, "m0")).unwrap();
        next_is_acked(&path);
    }
}

#[test]
fn a_handler_of_too_many_bytes_is_refused() {
    for language in LANGUAGES {
        let comment = if language == "js" { "//" } else { "#" };
        // 17 MiB in one file, and in two.
        let huge = format!("{comment}{}\n", "x".repeat(17 << 20));
        let text = refusal(language, &handler(language, &huge));
        assert!(text.contains("more than 16777216 bytes"), "{language}: {text}");
        let half = format!("{comment}{}\n", "x".repeat(9 << 20));
        let source = handler(language, &(import(language, "half") + &half));
        let (folder, path) = folder_of(language, &source);
        fs::write(folder.path().join(format!("half.{language}")), &half).unwrap();
        let text = Module::refusal(&path);
        assert!(text.contains("more than 16777216 bytes"), "{language}: {text}");
        // One of them alone is not too large, but RustPython's parser needs more memory for it than the topic has.
        if language == "js" {
            fs::write(folder.path().join(format!("half.{language}")), "").unwrap();
            next_is_acked(&path);
        }
    }
}

#[test]
fn imports_without_end_are_refused() {
    for language in LANGUAGES {
        let many: String = (0..20_000).map(|at| import(language, &format!("m{at}"))).collect();
        let text = refusal(language, &handler(language, &many));
        assert!(text.contains("imports than one file can have"), "{language}: {text}");
    }
    let long = format!("import './{}';\n", "a/".repeat(20_000));
    let text = refusal("js", &handler("js", &long));
    assert!(text.contains("main.js:1:") && text.contains("more than 1000 bytes"), "{text}");
    for name in [vec!["a"; 20_000].join("."), "a".repeat(20_000)] {
        // The class depends on what ends first: the name is not found, hashed by recursion, or a trap.
        refusal("py", &handler("py", &format!("import {name}")));
    }
}

/// Sources on which a parser or a compiler works long, or recurses. Each is refused or works.
#[test]
fn a_source_that_is_hard_to_read_harms_nothing() {
    let deep = |open: &str, close: &str| open.repeat(50_000) + "1" + &close.repeat(50_000);
    for language in LANGUAGES {
        let mut statements = String::new();
        for at in 0..60_000 {
            writeln!(statements, "v{at} = {at}").unwrap();
        }
        if language == "js" {
            statements = statements.replace("v", "var v");
        }
        let sources = [
            format!("var_ = {}", deep("(", ")")).replace("var_", variable(language)),
            format!("var_ = {}", deep("[", "]")).replace("var_", variable(language)),
            format!("var_ = {}1", "1+".repeat(100_000)).replace("var_", variable(language)),
            format!("var_ = '{}'", "x".repeat(2 << 20)).replace("var_", variable(language)),
            statements,
        ];
        for source in sources {
            let (_folder, path) = folder_of(language, &handler(language, &source));
            let shown: String = source.chars().take(20).collect();
            match Module::try_from_file(&path) {
                Err(error) => {
                    assert!(
                        !error.is_empty() && error.len() < 10_000,
                        "{language} {shown}: {error}"
                    );
                }
                Ok(module) => job_is_acked(&module),
            }
            let (_other, neighbour) = folder_of(language, &handler(language, ""));
            next_is_acked(&neighbour);
        }
    }
}

fn variable(language: &str) -> &'static str {
    if language == "js" { "const value" } else { "value" }
}
