//! Modules as topics name them: the real manifest, the real sandbox, files on disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

use std::path::Path;

use duebox::manifest::{Flags, Manifest, Surroundings, Topic};
use duebox::module_file::{self, ModuleError};
use duebox_job::TopicName;
use duebox_sandbox::{Digest, Handler, Sandbox, SandboxConfig};

const ACKS: &str =
    r#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;

/// The topic `t` with these keys, beside the module `acks.wat`.
fn topic(folder: &Path, keys: &str) -> Topic {
    let text = format!("[topics.t]\nhandler = \"acks.wat\"\n{keys}");
    let surroundings = Surroundings::new(Flags::default(), []);
    let manifest = Manifest::parse(&folder.join("duebox.toml"), text, &surroundings).unwrap();
    manifest.topics[&TopicName::new("t").unwrap()].clone()
}

fn load(topic: &Topic) -> Result<Handler, ModuleError> {
    let config = SandboxConfig { max_jobs: 1, memory_max: 64 << 20, tables_max: 100_000 };
    module_file::load(&Sandbox::new(&config).unwrap(), &"t", topic)
}

#[test]
fn a_pinned_module_is_loaded_and_any_other_file_is_refused_with_both_digests() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), ACKS).unwrap();
    let digest = Digest::of(ACKS.as_bytes());
    let pinned = topic(folder.path(), &format!("sha256 = \"{digest}\""));
    assert_eq!(load(&pinned).unwrap().digest(), digest);
    assert_eq!(load(&topic(folder.path(), "sha256 = \"\"")).unwrap().digest(), digest);

    let other = format!("{ACKS} ;; another build");
    std::fs::write(folder.path().join("acks.wat"), &other).unwrap();
    let refused = load(&pinned).unwrap_err();
    assert!(matches!(refused, ModuleError::Pin { .. }), "{refused}");
    let (text, found) = (refused.to_string(), Digest::of(other.as_bytes()));
    for part in ["topic t", "acks.wat", &digest.to_string(), &found.to_string(), "set `sha256`"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
}
