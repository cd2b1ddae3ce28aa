//! Modules that are refused at load, with a reason and a remedy, before anything runs.

use duebox_sandbox::{Capability, Digest, Grants, HttpGrant, Limits, LoadError};

use crate::support::{load, sandbox};

fn refusal(bytes: &[u8]) -> LoadError {
    refusal_with(bytes, Limits::default())
}

fn refusal_with(bytes: &[u8], limits: Limits) -> LoadError {
    match sandbox().load(bytes, limits, Grants::default()) {
        Ok(_) => panic!("loaded: {}", String::from_utf8_lossy(bytes)),
        Err(error) => error,
    }
}

/// A module with a valid `handle` and this text.
fn with(extra: &str) -> String {
    format!(r#"(module {extra} (func (export "handle") (param i32) (result i32) (i32.const 0)))"#)
}

/// The binary of a module's text.
fn binary(wat: &str) -> Vec<u8> {
    wat::parse_str(wat).unwrap()
}

#[test]
fn a_file_that_is_not_a_core_module_is_refused() {
    assert_eq!(refusal(b""), LoadError::Empty);
    assert_eq!(refusal(&[0x7f, b'E', b'L', b'F', 0xff]), LoadError::NotWasm);
    assert_eq!(refusal(b"text \0 with a zero"), LoadError::NotWasm);
    assert_eq!(refusal(b"\0asm\x0d\0\x01\0"), LoadError::Component);
    assert!(matches!(refusal(b"\0asm\x02\0\0\0"), LoadError::Invalid { .. }));
    let text = refusal(b"(module\n  (func (export \"handle\")\n    (i32.cons 1)))").to_string();
    assert!(text.contains("line 3:6") && text.contains("i32.cons"), "{text}");
    let text = refusal("(".repeat(100_000).as_bytes()).to_string();
    assert!(text.len() < 1000, "{} bytes", text.len());
    assert!(refusal(b"hello").to_string().contains("does not parse"));
    assert!(matches!(refusal(b"(component)"), LoadError::Component));
}

#[test]
fn a_truncated_file_is_refused() {
    let memory = r#"(memory (export "memory") 1)"#;
    let whole = binary(&with(&format!("{memory} (data (i32.const 0) \"some data\")")));
    let without_data = binary(&with(memory));
    let mut truncated = 0;
    for length in 1..whole.len() {
        let cut = sandbox().load(&whole[..length], Limits::default(), Grants::default());
        match cut {
            Err(LoadError::Truncated { size: at }) => {
                assert_eq!(at, length);
                truncated += 1;
            }
            // A file that is cut between two sections is a module, but not a complete handler. At one place
            // nothing shows that data should follow.
            Err(LoadError::NoHandle | LoadError::Invalid { .. }) => {}
            Err(other) => panic!("{length}: {other}"),
            Ok(_) => assert_eq!(whole[..length], without_data),
        }
    }
    assert!(truncated > whole.len() / 2, "{truncated} of {}", whole.len());
}

#[test]
fn a_file_with_a_flipped_bit_loads_or_is_refused() {
    let whole = binary(&with(r#"(memory (export "memory") 1) (data (i32.const 0) "some data")"#));
    let mut refused = 0;
    for at in 0..whole.len() {
        for mask in [0x01, 0x40, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            refused +=
                u32::from(sandbox().load(&bytes, Limits::default(), Grants::default()).is_err());
        }
    }
    assert!(refused > 0);
}

#[test]
fn the_size_of_a_file_is_limited() {
    let wat = with(r#"(memory (export "memory") 1) (data (i32.const 0) "0123456789")"#);
    let module = |max| Limits { module: max, ..Limits::default() };
    let size = binary(&wat).len();
    assert!(sandbox().load(&binary(&wat), module(size), Grants::default()).is_ok());
    let refused = refusal_with(&binary(&wat), module(size - 1));
    assert_eq!(refused, LoadError::TooLarge { size, max: size - 1 });
    let refused = refusal_with(wat.as_bytes(), module(wat.len() - 1));
    assert_eq!(refused, LoadError::TooLarge { size: wat.len(), max: wat.len() - 1 });
}

#[test]
fn unsupported_memories_are_refused() {
    let imported = r#"(import "env" "memory" (memory 1))"#;
    let text = refusal(with(imported).as_bytes()).to_string();
    assert!(text.starts_with("the module imports its memory (env.memory)"), "{text}");
    assert_eq!(refusal(with("(memory 1 2 shared)").as_bytes()), LoadError::SharedMemory);
    let shared = r#"(import "env" "memory" (memory 1 2 shared))"#;
    assert_eq!(refusal(with(shared).as_bytes()), LoadError::SharedMemory);
    assert_eq!(refusal(with("(memory i64 1)").as_bytes()), LoadError::Memory64);
    assert_eq!(refusal(with("(memory 1) (memory 1)").as_bytes()), LoadError::Memories { count: 2 });
}

#[test]
fn an_import_with_a_pointer_requires_a_memory() {
    for import in [
        r#"(import "duebox_v1" "log" (func (param i32 i32 i32)))"#,
        r#"(import "duebox_v1" "payload_read" (func (param i32 i32 i32) (result i32)))"#,
        r#"(import "env" "abort" (func (param i32 i32 i32 i32)))"#,
        r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
    ] {
        for memory in ["", "(memory 1)", r#"(memory (export "mem") 1)"#] {
            let refused = refusal(with(&format!("{import} {memory}")).as_bytes());
            assert!(matches!(refused, LoadError::NoMemory { .. }), "{import}: {refused}");
        }
        load(&with(&format!(r#"{import} (memory (export "memory") 1)"#)));
    }
    for import in [
        r#"(import "duebox_v1" "retry_after" (func (param i64)))"#,
        r#"(import "duebox_v1" "meta_int" (func (param i32) (result i64)))"#,
        r#"(import "env" "seed" (func (result f64)))"#,
        r#"(import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))"#,
    ] {
        load(&with(import));
    }
    let push = r#"(module
      (func (export "alloc") (param i32) (result i32) (i32.const 0))
      (func (export "handle") (param i32 i32) (result i32) (i32.const 0)))"#;
    assert_eq!(
        refusal(push.as_bytes()),
        LoadError::NoMemory { needs: "handle(ptr, len)".to_owned() }
    );
}

#[test]
fn a_module_that_starts_over_the_limits_is_refused() {
    let limits = Limits { memory: 2 << 16, tables: 10, ..Limits::default() };
    let fits = with("(memory 2) (table 5 funcref) (table 5 funcref)");
    assert!(sandbox().load(fits.as_bytes(), limits.clone(), Grants::default()).is_ok());
    assert_eq!(
        refusal_with(with("(memory 3)").as_bytes(), limits.clone()),
        LoadError::MemoryOverLimit { size: 3 << 16, max: 2 << 16 }
    );
    assert_eq!(
        refusal_with(with("(table 6 funcref) (table 5 funcref)").as_bytes(), limits.clone()),
        LoadError::TablesOverLimit { size: 11, max: 10 }
    );
    assert_eq!(
        refusal_with(with(&"(table 1 funcref)".repeat(5)).as_bytes(), limits),
        LoadError::Tables { size: 5, max: 4 }
    );
    let beyond = Limits { tables: u32::MAX, ..Limits::default() };
    assert!(matches!(refusal_with(fits.as_bytes(), beyond), LoadError::PoolTables { .. }));
}

#[test]
fn too_many_functions_are_refused() {
    let refused = refusal(with(&"(func)".repeat(100_000)).as_bytes());
    assert_eq!(refused, LoadError::Functions { size: 100_001, max: 100_000 });
}

#[test]
fn a_called_export_must_be_defined_in_the_module() {
    // If the host called WASI's fd_close directly, it would run outside of any instance, without a memory.
    let close = r#"(import "wasi_snapshot_preview1" "fd_close"
        (func $close (param i32) (result i32))) (memory (export "memory") 1)"#;
    let push = r#"(func (export "handle") (param i32 i32) (result i32) (i32.const 0))"#;
    for module in [
        format!(r#"(module {close} (export "handle" (func $close)))"#),
        format!(r#"(module {close} (export "alloc" (func $close)) {push})"#),
    ] {
        let refused = refusal(module.as_bytes());
        assert!(matches!(refused, LoadError::ExportedImport { .. }), "{refused}");
    }
}

#[test]
fn a_command_is_refused() {
    let refused = refusal(with(r#"(func (export "_start"))"#).as_bytes());
    assert_eq!(refused, LoadError::Command);
    assert!(refused.remedy().contains("build a reactor / library, not a command"));
}

#[test]
fn unknown_imports_are_refused_by_name() {
    for (module, name) in [
        ("duebox_v1", "frobnicate"),
        ("duebox_v1", "payload_read "),
        ("duebox_v2", "log"),
        ("env", "puts"),
        ("env", "console.table"),
        ("wasi_snapshot_preview1", "fd_frobnicate"),
        ("wasi_unstable", "fd_write"),
        ("", ""),
    ] {
        let wat =
            with(&format!(r#"(import "{module}" "{name}" (func)) (memory (export "memory") 1)"#));
        let (module, name) = (module.to_owned(), name.to_owned());
        let named = format!("{module}.{name}");
        let refused = refusal(wat.as_bytes());
        assert_eq!(refused, LoadError::UnknownImport { module, name });
        assert!(refused.to_string().contains(&named));
    }
    for kind in ["(global i32)", "(table 1 funcref)"] {
        let refused = refusal(with(&format!(r#"(import "env" "thing" {kind})"#)).as_bytes());
        assert!(matches!(refused, LoadError::UnknownImport { .. }), "{kind}: {refused}");
    }
}

#[test]
fn all_missing_capabilities_are_reported_at_once() {
    let function = |name: &str, arity: usize| {
        let parameters = "i32 ".repeat(arity);
        format!(r#"(import "duebox_v1" "{name}" (func (param {parameters}) (result i32)))"#)
    };
    let imports = [("push", 4), ("http_send", 5), ("http_read", 4), ("kv_get", 4)];
    let imports: String = imports.iter().map(|(name, arity)| function(name, *arity)).collect();
    let wat = with(&format!(r#"{imports} (memory (export "memory") 1)"#));
    let refused = refusal(wat.as_bytes());
    let LoadError::NotGranted(missing) = &refused else { panic!("{refused}") };
    assert_eq!(missing.capabilities(), [Capability::Push, Capability::Http, Capability::Kv]);
    assert_eq!(
        refused.to_string(),
        "the imports duebox_v1.push, duebox_v1.http_send, duebox_v1.http_read, duebox_v1.kv_get are \
         not granted"
    );
    assert_eq!(
        refused.remedy(),
        "name the topics it may reach under `push` and name the origins it may reach under \
         `http` and set `kv = true` in the topic's sandbox, or build the handler without them"
    );
    let grants = Grants {
        push: Some(Vec::new()),
        http: Some(HttpGrant::default()),
        kv: true,
        ..Grants::default()
    };
    assert!(sandbox().load(wat.as_bytes(), Limits::default(), grants).is_ok());
}

#[test]
fn push_without_a_grant_is_refused_by_name() {
    let import = r#"(import "duebox_v1" "push" (func (param i32 i32 i32 i32) (result i32)))"#;
    let wat = with(&format!(r#"{import} (memory (export "memory") 1)"#));
    let refused = refusal(wat.as_bytes());
    assert!(matches!(refused, LoadError::NotGranted { .. }), "{refused}");
    assert!(refused.to_string().contains("duebox_v1.push is not granted"), "{refused}");
    for granted in [vec![], vec!["sms.*".to_owned()]] {
        let grants = Grants { push: Some(granted), ..Grants::default() };
        assert!(sandbox().load(wat.as_bytes(), Limits::default(), grants).is_ok());
    }
    // The same name in another namespace is unknown, with or without a grant.
    let elsewhere = with(r#"(import "env" "push" (func))"#);
    assert!(matches!(refusal(elsewhere.as_bytes()), LoadError::UnknownImport { .. }));
}

#[test]
fn imports_with_a_wrong_signature_are_refused_by_name() {
    for (module, name, ty) in [
        ("duebox_v1", "retry_after", "(func (param i32))"),
        ("duebox_v1", "log", "(func (param i32 i32))"),
        ("duebox_v1", "snooze", "(func (param i32))"),
        ("duebox_v1", "result", "(func (param i32 i32))"),
        ("duebox_v1", "meta_int", "(func (param i32) (result i32))"),
        ("env", "abort", "(func)"),
        ("wasi_snapshot_preview1", "fd_write", "(func)"),
        ("wasi_snapshot_preview1", "proc_exit", "(func (param i64))"),
    ] {
        let wat =
            with(&format!(r#"(import "{module}" "{name}" {ty}) (memory (export "memory") 1)"#));
        match refusal(wat.as_bytes()) {
            LoadError::ImportType { reason: text } => assert!(text.contains(name), "{text}"),
            other => panic!("{module}.{name}: {other}"),
        }
    }
}

#[test]
fn exports_must_have_the_signatures_of_the_abi() {
    assert_eq!(refusal(b"(module)"), LoadError::NoHandle);
    assert_eq!(refusal(br#"(module (memory (export "handle") 1))"#), LoadError::NoHandle);
    for ty in [
        "(result i32) (i32.const 0)",
        "(param i32)",
        "(param i64) (result i32) (i32.const 0)",
        "(param i32) (result i64) (i64.const 0)",
        "(param i32 i32 i32) (result i32) (i32.const 0)",
        "(param f32 i32) (result i32) (i32.const 0)",
        "(param i32) (result i32 i32) (i32.const 0) (i32.const 0)",
    ] {
        let refused = refusal(format!(r#"(module (func (export "handle") {ty}))"#).as_bytes());
        assert!(matches!(refused, LoadError::ExportType { name: "handle", .. }), "{ty}: {refused}");
    }
    let push = r#"(func (export "handle") (param i32 i32) (result i32) (i32.const 0))"#;
    assert_eq!(refusal(format!("(module {push})").as_bytes()), LoadError::NoAlloc);
    let alloc = r#"(func (export "alloc") (param i32))"#;
    let refused = refusal(format!("(module {push} {alloc})").as_bytes());
    assert!(matches!(refused, LoadError::ExportType { name: "alloc", .. }), "{refused}");
    let initialize = r#"(func (export "_initialize") (param i32))"#;
    let refused = refusal(with(initialize).as_bytes());
    assert!(matches!(refused, LoadError::ExportType { name: "_initialize", .. }), "{refused}");
    // With one parameter, `alloc` is not used, whatever it is.
    load(&with(alloc));
}

#[test]
fn an_invalid_module_is_refused() {
    let unbalanced = r#"(module (func (export "handle") (param i32) (result i32)))"#;
    assert!(matches!(refusal(unbalanced.as_bytes()), LoadError::Invalid { .. }));
}

#[test]
fn loading_runs_no_function() {
    load(&with("(func $spin (loop $again (br $again))) (start $spin)"));
}

#[test]
fn a_handler_has_the_digest_of_its_file() {
    let wat = with("");
    assert_eq!(load(&wat).digest(), Digest::of(wat.as_bytes()));
    assert_ne!(load(&wat).digest(), load(&format!("{wat}\n")).digest());
    let limits = Limits { payload: 17, ..Limits::default() };
    let handler = sandbox().load(wat.as_bytes(), limits, Grants::default()).unwrap();
    assert_eq!(handler.payload_max(), 17);
}

#[test]
fn a_function_that_is_too_complex_is_refused_before_it_is_compiled() {
    // Each block passes a hundred operands on twice: 21 kB that would take gigabytes to compile.
    let (consts, drops) = ("i32.const 1 ".repeat(100), "drop ".repeat(100));
    let types = "i32 ".repeat(100);
    let block = "block (type $wide) local.get 0 br_if 0 end ".repeat(3_000);
    let bomb = format!(
        r#"(module (type $wide (func (param {types}) (result {types})))
          (func (export "handle") (param i32) (result i32) {consts} {block} {drops} (i32.const 0)))"#
    );
    let refused = refusal(&binary(&bomb));
    assert!(matches!(refused, LoadError::Function { function: 0, .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.starts_with("function 0 of the module has 200100 "), "{text}");
    assert!(text.contains("operands of blocks and branches; at most 200000 are allowed"), "{text}");
}

#[test]
fn a_long_text_is_refused_before_it_is_parsed() {
    let long = format!("{};; {}", with(""), "x".repeat(1 << 20));
    assert!(matches!(refusal(long.as_bytes()), LoadError::TextTooLarge { .. }));
}
