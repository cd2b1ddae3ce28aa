//! Loading modules of topics: the real manifest, the real sandbox, files on disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files has failed")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use duebox::deploy::module_file::{self, ModuleError};
use duebox::manifest::{Environment, Flags, Manifest, Topic};
use duebox_job::TopicName;
use duebox_sandbox::{Digest, Handler, Sandbox, SandboxConfig, SandboxError};

const ACKS: &str = r#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;

/// The topic `t` with these keys, and the module `acks.wat` as its handler.
fn topic(folder: &Path, keys: &str) -> Topic {
    let text = format!("[topics.t]\nhandler = \"acks.wat\"\n{keys}");
    let environment = Environment::new(Flags::default(), []);
    let manifest = Manifest::parse(&folder.join("duebox.toml"), text, &environment).unwrap();
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

/// Logs its payload and returns its first digit; snoozes on `s`, traps on `t`, loops on `l`.
const ANSWERS: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (memory (export "memory") 1)
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 0) (i32.const 0) (local.get $len)))
    (call $log (i32.const 2) (i32.const 0) (local.get $len))
    (if (i32.eq (i32.load8_u (i32.const 0)) (i32.const 0x73)) (then
      (call $snooze (i64.const 1000)) (return (i32.const 1))))
    (if (i32.eq (i32.load8_u (i32.const 0)) (i32.const 0x74)) (then unreachable))
    (loop $again (br_if $again (i32.eq (i32.load8_u (i32.const 0)) (i32.const 0x6c))))
    (i32.sub (i32.load8_u (i32.const 0)) (i32.const 48))))"#;

#[test]
fn a_module_loads_if_it_passes_every_smoke_case() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), ANSWERS).unwrap();
    let with = |cases: &[(&str, &str)]| {
        let cases = cases.iter().map(|(payload, expect)| {
            format!("[[topics.t.smoke]]\npayload = \"{payload}\"\nexpect = \"{expect}\"\n")
        });
        let topic =
            topic(folder.path(), &format!("ttr = \"200ms\"\n{}", cases.collect::<String>()));
        load(&topic).map_err(|error| error.to_string())
    };
    with(&[("0", "ack"), ("1", "nack"), ("2", "drop"), ("s", "snooze")]).unwrap();
    for (payload, expect, reason) in [
        ("1", "ack", "should end with ack and ended with nack (its log ends: info: 1)"),
        ("0", "drop", "should end with drop and ended with ack"),
        ("s", "nack", "should end with nack and ended with snooze"),
        ("t", "nack", "ended with trap: wasm `unreachable`"),
        ("l", "ack", "ended with timeout"),
        ("9", "drop", "ended with bad_verdict"),
    ] {
        let refused = with(&[("0", "ack"), (payload, expect)]).unwrap_err();
        for part in ["topic t", "acks.wat", "smoke case 2 of 2", &format!("{payload:?}"), reason] {
            assert!(refused.contains(part), "{part} is missing: {refused}");
        }
        assert!(refused.ends_with("; correct the handler, or `smoke` if the case is wrong"));
    }
}

fn manifest(folder: &Path, runner: &str, variables: &[(&str, &Path)]) -> Manifest {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_str().unwrap().to_owned()));
    let text = format!("[runner]\n{runner}\n[topics.t]\nhandler = \"acks.wat\"\n");
    let environment = Environment::new(Flags::default(), variables);
    Manifest::parse(&folder.join("duebox.toml"), text, &environment).unwrap()
}

fn load_by(manifest: &Manifest) -> Result<(), SandboxError> {
    let config = SandboxConfig { max_jobs: 1, memory_max: 64 << 20, tables_max: 100_000 };
    let sandbox =
        module_file::sandbox(&config, &manifest.runner, env!("CARGO_BIN_EXE_duebox").into())?;
    let topic = &manifest.topics[&TopicName::new("t").unwrap()];
    module_file::load(&sandbox, &"t", topic).unwrap();
    Ok(())
}

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn compiled_modules_are_cached_in_the_configured_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("acks.wat"), ACKS).unwrap();
    let (xdg, home) = (at("xdg"), at("home"));
    let both = [("XDG_CACHE_HOME", &*xdg), ("HOME", &*home)];
    load_by(&manifest(folder.path(), "cache = \"here\"", &both)).unwrap();
    assert_eq!((count(&at("here")), count(&xdg), count(&home)), (1, 0, 0));
    load_by(&manifest(folder.path(), "", &both)).unwrap();
    assert_eq!((count(&at("xdg/duebox")), count(&home)), (1, 0));
    load_by(&manifest(folder.path(), "", &both[1..])).unwrap();
    assert_eq!(count(&at("home/.cache/duebox")), 1);
    load_by(&manifest(folder.path(), "cache = \"\"", &both)).unwrap();
    assert_eq!(manifest(folder.path(), "cache = \"\"", &both).runner.cache, None);
    assert_eq!(manifest(folder.path(), "", &[]).runner.cache, None);
}

#[test]
fn a_configured_cache_must_be_private_and_the_default_is_optional() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), ACKS).unwrap();
    let shared = folder.path().join("shared");
    let default = shared.join("duebox");
    for folder in [&shared, &default] {
        std::fs::create_dir(folder).unwrap();
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    }
    let refused = load_by(&manifest(folder.path(), "cache = \"shared\"", &[])).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("shared") && text.contains("can be written by others"), "{text}");
    load_by(&manifest(folder.path(), "", &[("XDG_CACHE_HOME", &shared)])).unwrap();
    assert_eq!(count(&default), 0);
}

/// A handler with functions that merge thousands of locals at thousands of blocks. Compiling it takes seconds
/// and hundreds of MiB.
fn bomb() -> String {
    let block = |at: usize| {
        let (to, from) = (at % 4_900 + 1, at * 7 % 4_900 + 1);
        format!("(block (br_if 0 (local.get 0)) (local.set {to} (local.get {from})))")
    };
    let (locals, blocks) = ("i32 ".repeat(4_900), (0..4_990).map(block).collect::<String>());
    let body = format!("(local {locals}) (loop (br_if 0 (local.get 0)) {blocks} (br 0))");
    let function = format!("(func (param i32) (result i32) {body} (i32.const 0))");
    let handle = "(func (export \"handle\") (param i32) (result i32) (i32.const 0))";
    format!("(module {handle} {})", function.repeat(12))
}

/// The refusal of the handler under these keys of `[runner]`.
fn refusal_by(manifest: &Manifest) -> String {
    let config = SandboxConfig { max_jobs: 1, memory_max: 64 << 20, tables_max: 100_000 };
    let program = env!("CARGO_BIN_EXE_duebox").into();
    let sandbox = module_file::sandbox(&config, &manifest.runner, program).unwrap();
    let topic = &manifest.topics[&TopicName::new("t").unwrap()];
    module_file::load(&sandbox, &"t", topic).unwrap_err().to_string()
}

#[test]
fn a_module_that_is_too_expensive_to_compile_is_refused_with_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), wat::parse_str(bomb()).unwrap()).unwrap();
    for (limits, reason) in [
        ("compile_memory = \"64MiB\"", "needs more than 64 MiB to compile"),
        ("compile_memory = \"8GiB\"\ncompile_time = \"1s\"", "needs more than 1 s to compile"),
    ] {
        let keys = format!("cache = \"\"\n{limits}");
        let refused = refusal_by(&manifest(folder.path(), &keys, &[]));
        for part in ["topic t", "acks.wat", reason, "runner.compile_"] {
            assert!(refused.contains(part), "{part} is missing: {refused}");
        }
    }
}

#[test]
fn a_cached_module_needs_no_compiler_process() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), ACKS).unwrap();
    let manifest = manifest(folder.path(), "cache = \"here\"", &[]);
    let config = SandboxConfig { max_jobs: 1, memory_max: 64 << 20, tables_max: 100_000 };
    let load = |program: &str| {
        let sandbox = module_file::sandbox(&config, &manifest.runner, program.into()).unwrap();
        let topic = &manifest.topics[&TopicName::new("t").unwrap()];
        module_file::load(&sandbox, &"t", topic).map_err(|error| error.to_string())
    };
    let refused = load("/no/such/program").unwrap_err();
    assert!(refused.contains("the compiler /no/such/program does not start"), "{refused}");
    load(env!("CARGO_BIN_EXE_duebox")).unwrap();
    load("/no/such/program").unwrap();
}

/// `_initialize` stores the verdict, and the first byte of an environment variable.
const INITIALIZES: &str = r#"(module
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize")
    (drop (call $environ (i32.const 64) (i32.const 128)))
    (i32.store8 (i32.const 0) (i32.load8_u (i32.const 130))))
  (func (export "handle") (param i32) (result i32)
    (i32.sub (i32.load8_u (i32.const 0)) (i32.const 48))))"#;

#[test]
fn a_snapshot_is_taken_in_the_compiler_process() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("acks.wat"), INITIALIZES).unwrap();
    let manifest = |value: &str, verdict: &str| {
        let topic = format!(
            "[runner]\ncache = \"\"\n[topics.t]\nhandler = \"acks.wat\"\nsnapshot = true\n\
             sandbox = {{ env = {{ V = \"{value}\" }} }}\nsmoke = [{{ payload = \"\", expect = \"{verdict}\" }}]\n"
        );
        let environment = Environment::new(Flags::default(), []);
        Manifest::parse(&folder.path().join("duebox.toml"), topic, &environment).unwrap()
    };
    load_by(&manifest("0", "ack")).unwrap();
    load_by(&manifest("2", "drop")).unwrap();
    let traps = "(module (func (export \"_initialize\") unreachable) \
                   (func (export \"handle\") (param i32) (result i32) (i32.const 0)))";
    std::fs::write(folder.path().join("acks.wat"), traps).unwrap();
    let refused = refusal_by(&manifest("0", "ack"));
    assert!(refused.contains("its _initialize failed") && refused.contains("trap"), "{refused}");
}
