//! `duebox inspect` on modules with the mistakes that authors make: each module of `tests/modules` has its refusal in a
//! file next to it. With BLESS set, the files are written anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use duebox_harness::duebox_binary;

pub(super) const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/modules");

pub(super) fn inspect(folder: &Path, args: &[&str]) -> Output {
    Command::new(duebox_binary())
        .arg("inspect")
        .args(args)
        .current_dir(folder)
        .env_remove("DUEBOX_MANIFEST")
        .output()
        .unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compares a text with a file, or writes the file.
pub(super) fn is_golden(file: &Path, text: &str) -> bool {
    if std::env::var_os("BLESS").is_some() {
        fs::write(file, text).unwrap();
    }
    let wanted = fs::read_to_string(file).unwrap_or_default();
    if wanted != text {
        println!("{}:\n--- expected\n{wanted}\n--- came\n{text}", file.display());
    }
    wanted == text
}

fn modules() -> Vec<PathBuf> {
    let entries = fs::read_dir(MODULES).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    let mut modules: Vec<PathBuf> =
        files.filter(|file| file.extension().unwrap() == "wat").collect();
    modules.sort();
    modules
}

#[test]
fn each_mistake_is_explained_in_its_language() {
    let modules = modules();
    assert!(modules.len() >= 20, "{modules:?}");
    let mut differ = Vec::new();
    for module in &modules {
        let name = module.file_name().unwrap().to_str().unwrap();
        let output = inspect(Path::new(MODULES), &[name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {error}{}", text(&output.stdout));
        if !is_golden(&module.with_extension("err"), &error) {
            differ.push(name);
        }
    }
    assert!(differ.is_empty(), "{differ:?} differ; BLESS=1 writes what came");
}

#[test]
fn a_program_for_this_machine_is_recognized() {
    let dir = tempfile::tempdir().unwrap();
    fs::copy("/bin/sh", dir.path().join("libhandler.so")).unwrap();
    let output = inspect(dir.path(), &["libhandler.so"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_golden(&Path::new(MODULES).join("native.err"), &text(&output.stderr)));
}

#[test]
fn a_module_that_is_too_large_names_its_debug_information() {
    let dir = tempfile::tempdir().unwrap();
    let fill = "x".repeat(17 << 20);
    let text_module = format!(
        "(module (@producers (language \"Rust\" \"2024\")) (func (export \"handle\") (param i32) (result i32) \
         (i32.const 0)) (@custom \".debug_info\" \"{fill}\"))"
    );
    fs::write(dir.path().join("large.wasm"), wat::parse_str(text_module).unwrap()).unwrap();
    let output = inspect(dir.path(), &["large.wasm"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_golden(&Path::new(MODULES).join("too_large.err"), &text(&output.stderr)));
}

const CAPABLE: &str = r#"(module
    (import "duebox_v1" "http_send" (func (param i32 i32 i32 i32 i32) (result i32)))
    (import "duebox_v1" "kv_delete" (func (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "GET https://api.example.com/rate")
    (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;

#[test]
fn a_capability_that_the_topic_does_not_grant_comes_with_its_block() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rate.wat"), CAPABLE).unwrap();
    let manifest = "[redis]\nurl = \"managed\"\n[topics.\"rate.get\"]\nhandler = \"rate.wat\"\n";
    fs::write(dir.path().join("duebox.toml"), manifest).unwrap();
    let output = inspect(dir.path(), &["rate.wat"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(is_golden(&Path::new(MODULES).join("ungranted.err"), &text(&output.stderr)));
    // The block that it prints is a manifest that serves the handler.
    let error = text(&output.stderr);
    let block = error.split_once("really reach:\n").unwrap().1;
    fs::write(dir.path().join("duebox.toml"), format!("{manifest}{block}")).unwrap();
    let output = inspect(dir.path(), &["rate.wat"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked =
        Command::new(duebox_binary()).arg("check").current_dir(dir.path()).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn a_good_module_is_described_as_json() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rate.wat"), CAPABLE).unwrap();
    let output = inspect(dir.path(), &["rate.wat", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["needs"], serde_json::json!(["http", "kv"]));
    assert_eq!(report["origins"], serde_json::json!(["https://api.example.com"]));
    assert_eq!(report["verdict"], "ack");
    assert_eq!(report["exports"][1], serde_json::json!({"name": "handle", "type": "(i32) -> i32"}));
    for figure in ["load_ms", "instantiate_us", "call_us", "calls", "memory_peak_bytes", "bytes"] {
        assert!(report[figure].as_f64().is_some_and(|value| value > 0.0), "{figure}: {report}");
    }
}

#[test]
fn the_abort_of_assemblyscript_is_no_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let module = r#"(module
        (import "env" "abort" (func (param i32 i32 i32 i32)))
        (memory (export "memory") 1)
        (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    fs::write(dir.path().join("as.wat"), module).unwrap();
    let output = inspect(dir.path(), &["as.wat", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["language"], "AssemblyScript");
    assert!(is_golden(
        &Path::new(MODULES).join("abort.note"),
        report["notes"][0].as_str().unwrap()
    ));
}

fn build(folder: &Path) -> Output {
    Command::new(duebox_binary())
        .arg("build")
        .current_dir(folder)
        .env_remove("DUEBOX_MANIFEST")
        .output()
        .unwrap()
}

/// `duebox build` places a module that passed its checks, and no other.
#[test]
fn a_module_that_could_not_serve_is_not_placed() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("order-close");
    let new = Command::new(duebox_binary())
        .args(["new", "c", "order-close"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(new.status.success(), "{}", text(&new.stderr));
    let built = build(&project);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let module = project.join("build/handler.wasm");
    let first = fs::read(&module).unwrap();

    // It needs the store, which the topic does not grant.
    let source = project.join("handler.c");
    let handler = fs::read_to_string(&source).unwrap();
    let with_store = handler.replace(
        "return duebox_ack();",
        "duebox_kv_delete(DUEBOX(\"a\"));\n  return duebox_ack();",
    );
    fs::write(&source, &with_store).unwrap();
    let refused = build(&project);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("does not grant kv"), "{error}");
    assert_eq!(fs::read(&module).unwrap(), first);

    // It exports nothing.
    fs::write(&source, "int unused(void) { return 0; }\n").unwrap();
    let refused = build(&project);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("build/handler.wasm is refused"), "{error}");
    assert_eq!(fs::read(&module).unwrap(), first);
    let left: Vec<_> = fs::read_dir(project.join("build")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    // What is granted is placed.
    fs::write(&source, with_store).unwrap();
    let manifest = project.join("duebox.toml");
    let granted =
        fs::read_to_string(&manifest).unwrap().replace("config = {", "kv = true\nconfig = {");
    fs::write(&manifest, granted).unwrap();
    let built = build(&project);
    assert!(built.status.success(), "{}", text(&built.stderr));
    assert_ne!(fs::read(&module).unwrap(), first);
}

/// What a source and the files that it imports take from `duebox`, and what that needs.
#[test]
fn a_source_is_described_as_a_module_is() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
    write(
        "rate.ts",
        "import { job, type Job, nack } from \"duebox\";\nimport { ask } from \"./ask.ts\";\n\
         export default async function () { return (await ask(job.config(\"url\"))) ? \"ack\" : nack(\"no\"); }\n",
    );
    write(
        "ask.ts",
        "import {\n  http as web,\n} from \"duebox\";\nexport async function ask(path: string) {\n  \
         return (await web.get(`https://api.example.com/${path}`)).ok;\n}\n",
    );
    let output = inspect(dir.path(), &["rate.ts", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let imports: Vec<&str> = report["imports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|import| {
            assert_eq!(import["module"], "duebox");
            import["name"].as_str().unwrap()
        })
        .collect();
    assert_eq!(imports, ["http", "job", "nack"]);
    assert_eq!(report["needs"], serde_json::json!(["http"]));
    assert_eq!(report["origins"], serde_json::json!(["https://api.example.com"]));
    let block = report["sandbox"].as_str().unwrap();
    assert!(block.contains("https://api.example.com") && block.contains("url = "), "{block}");
    let output = inspect(dir.path(), &["rate.ts"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("imports") && shown.contains("duebox: http, job, nack"), "{shown}");

    // A topic that does not grant it is a problem.
    write("duebox.toml", "[redis]\nurl = \"managed\"\n[topics.rate]\nhandler = \"rate.ts\"\n");
    let output = inspect(dir.path(), &["rate.ts"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("does not grant http"), "{}", text(&output.stderr));
}
