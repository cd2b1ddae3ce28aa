//! The handwritten modules in `docs/reference/abi.md` load and run.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module, repository};

/// Writes the document's wat blocks as files into a folder of the test and loads them.
fn shown(home: &std::path::Path) -> Vec<Module> {
    let text = std::fs::read_to_string(repository().join("docs/reference/abi.md"));
    let text = text.unwrap_or_else(|error| panic!("docs/reference/abi.md: {error}"));
    let blocks = text.split("```wat\n").skip(1).map(|rest| rest.split("```").next());
    let file = |(index, block): (usize, Option<&str>)| {
        let path = home.join(format!("{index}.wat"));
        std::fs::write(&path, block.unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"));
        Module::from_file(&path, BTreeMap::new())
    };
    blocks.enumerate().map(file).collect()
}

#[test]
fn the_modules_of_the_abi_document_run() {
    let home =
        tempfile::tempdir().unwrap_or_else(|error| panic!("cannot create a directory: {error}"));
    let modules = shown(home.path());
    let [smallest, looking] = &modules[..] else { panic!("{} modules", modules.len()) };
    assert_eq!(smallest.run(&Attempt::new("anything")).verdict(), "ack");
    assert_eq!(looking.run(&Attempt::new("{}")).verdict(), "ack");
    let run = looking.run(&Attempt::new("[]"));
    assert_eq!((run.verdict(), run.reason()), ("drop", "the payload is not an object"));
    assert_eq!(looking.run(&Attempt::new("")).verdict(), "drop");
}
