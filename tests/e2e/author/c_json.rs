//! The writer of `duebox_json.h` writes each kind of value as JSON: the project in `sdk/c/tests`.

use std::fs;
use std::path::Path;
use std::process::Command;

use duebox_harness::duebox_binary;

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/c");

#[test]
fn each_kind_of_value_is_written_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("tests");
    fs::create_dir_all(project.join("tests")).unwrap();
    for file in ["duebox.h", "duebox_json.h"] {
        fs::copy(Path::new(SDK).join(file), dir.path().join(file)).unwrap();
    }
    for file in ["handler.c", "compile_flags.txt", "duebox.toml", "tests/write.toml"] {
        fs::copy(Path::new(SDK).join("tests").join(file), project.join(file)).unwrap();
    }
    for command in ["build", "test"] {
        let output = Command::new(duebox_binary())
            .arg(command)
            .current_dir(&project)
            .env_remove("DUEBOX_MANIFEST")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}:\n{out}\n{error}");
        assert!(command == "build" || out.contains("1 passed, 0 failed"), "{out}");
    }
}
