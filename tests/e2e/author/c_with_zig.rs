//! A handler in C on a machine whose only compiler is zig.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use duebox_harness::duebox_binary;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

#[test]
fn zig_builds_the_project_and_every_header() {
    let zig = fs::canonicalize(Path::new(ROOT).join(".tools/zig/bin/zig"));
    let zig = zig.expect("zig is in .tools/zig; ./dev test downloads it");
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(zig, bin.join("zig")).unwrap();
    let duebox = |folder: &Path, args: &[&str]| {
        let mut command = Command::new(duebox_binary());
        let output = command
            .args(args)
            .current_dir(folder)
            .env("PATH", &bin)
            .env("ZIG_GLOBAL_CACHE_DIR", dir.path().join("zig-cache"))
            .env_remove("DUEBOX_MANIFEST")
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}:\n{out}\n{error}");
        out
    };
    duebox(dir.path(), &["new", "c", "order-close"]);
    let project = dir.path().join("order-close");
    let built = duebox(&project, &["build"]);
    assert!(built.contains("build/handler.wasm is a handler in C"), "{built}");
    assert!(duebox(&project, &["test"]).contains("passed"));

    // The handlers of the conformance suite use all that the headers have.
    for name in ["echo-c", "relay-c", "reach-c"] {
        let handler = dir.path().join(name);
        fs::create_dir(&handler).unwrap();
        for source in fs::read_dir(Path::new(ROOT).join("handlers").join(name)).unwrap() {
            let source = source.unwrap().path();
            fs::copy(&source, handler.join(source.file_name().unwrap())).unwrap();
        }
        let headers = ["duebox.h", "duebox_http.h", "duebox_json.h", "duebox_redirect.h"];
        let headers = headers.map(|header| format!("sdk/c/{header}"));
        for header in headers.iter().map(String::as_str).chain(["handlers/conformance.h"]) {
            let header = Path::new(ROOT).join(header);
            let at = if header.ends_with("conformance.h") { dir.path() } else { &handler };
            fs::copy(&header, at.join(header.file_name().unwrap())).unwrap();
        }
        fs::write(handler.join("compile_flags.txt"), "-I.\n").unwrap();
        assert!(duebox(&handler, &["build"]).contains("handler in C"), "{name}");
    }
}
