//! The manifests in the documentation.

use std::path::Path;

use duebox::manifest::Manifest;
use duebox_job::FailureClass;

use crate::environment;

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
