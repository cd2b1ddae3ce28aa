//! The module that makes the calls listed in its payload, and the encoding of such payloads. The
//! module's memory starts with the payload: the number of calls, a record for each, and at
//! [`DATA_AT`] the data.

use std::fmt::Write as _;

/// Maximum number of i32 parameters of an import.
pub const NARROW: usize = 7;
/// Maximum number of i64 parameters of an import.
pub const WIDE: usize = 2;
/// Maximum number of calls per job.
const CALLS_MAX: usize = 32;
/// Bytes per record: the import, then its parameters.
const RECORD: usize = 4 + 4 * NARROW + 8 * WIDE;
/// Offset of the data.
pub const DATA_AT: u32 = 2_048;
/// Maximum number of data bytes.
const DATA_MAX: usize = 20 << 10;
/// Size of the module's memory in bytes.
pub const MEMORY_BYTES: u32 = 2 * 65_536;

const _: () = assert!(4 + CALLS_MAX * RECORD <= DATA_AT as usize);

/// Every import of duebox_v1 and of AssemblyScript, and the WASI imports that read or write memory:
/// namespace, name, parameters (i is i32, l is i64), result. None of them ends the guest or sleeps.
const IMPORTS: &[(&str, &str, &str, &str)] = &[
    ("duebox_v1", "payload_read", "iii", "i"),
    ("duebox_v1", "meta_read", "iii", "i"),
    ("duebox_v1", "meta_int", "i", "l"),
    ("duebox_v1", "config_read", "iiii", "i"),
    ("duebox_v1", "random", "ii", ""),
    ("duebox_v1", "retry_after", "l", ""),
    ("duebox_v1", "snooze", "l", ""),
    ("duebox_v1", "reason", "ii", ""),
    ("duebox_v1", "result", "ii", "i"),
    ("duebox_v1", "log", "iii", ""),
    ("duebox_v1", "push", "iiii", "i"),
    ("duebox_v1", "http_send", "iiiii", "i"),
    ("duebox_v1", "http_read", "iiii", "i"),
    ("duebox_v1", "kv_get", "iiii", "i"),
    ("duebox_v1", "kv_set", "iiiili", "i"),
    ("duebox_v1", "kv_delete", "ii", "i"),
    ("duebox_v1", "kv_add", "iili", "i"),
    ("env", "console.log", "i", ""),
    ("env", "console.error", "i", ""),
    ("env", "seed", "", "d"),
    ("env", "Date.now", "", "d"),
    ("wasi_snapshot_preview1", "args_get", "ii", "i"),
    ("wasi_snapshot_preview1", "clock_time_get", "ili", "i"),
    ("wasi_snapshot_preview1", "environ_get", "ii", "i"),
    ("wasi_snapshot_preview1", "environ_sizes_get", "ii", "i"),
    ("wasi_snapshot_preview1", "fd_fdstat_get", "ii", "i"),
    ("wasi_snapshot_preview1", "fd_filestat_get", "ii", "i"),
    ("wasi_snapshot_preview1", "fd_pread", "iiili", "i"),
    ("wasi_snapshot_preview1", "fd_prestat_dir_name", "iii", "i"),
    ("wasi_snapshot_preview1", "fd_prestat_get", "ii", "i"),
    ("wasi_snapshot_preview1", "fd_read", "iiii", "i"),
    ("wasi_snapshot_preview1", "fd_readdir", "iiili", "i"),
    ("wasi_snapshot_preview1", "fd_renumber", "ii", "i"),
    ("wasi_snapshot_preview1", "fd_seek", "ilii", "i"),
    ("wasi_snapshot_preview1", "fd_write", "iiii", "i"),
    ("wasi_snapshot_preview1", "path_open", "iiiiillii", "i"),
    ("wasi_snapshot_preview1", "path_rename", "iiiiii", "i"),
    ("wasi_snapshot_preview1", "random_get", "ii", "i"),
];

/// One call.
pub struct Record {
    /// Its import, modulo the number of imports.
    pub import: u8,
    /// The i32 parameters; unused ones are ignored.
    pub narrow: [u32; NARROW],
    /// The i64 parameters; unused ones are ignored.
    pub wide: [i64; WIDE],
}

/// Encodes the payload that makes these calls. Calls and data beyond the limits are left out.
pub fn payload(calls: impl Iterator<Item = Record>, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 4];
    for call in calls.take(CALLS_MAX) {
        payload[0] += 1;
        let import = usize::from(call.import) % IMPORTS.len();
        payload.extend((import as u32).to_le_bytes());
        payload.extend(call.narrow.into_iter().flat_map(u32::to_le_bytes));
        payload.extend(call.wide.into_iter().flat_map(i64::to_le_bytes));
    }
    payload.resize(DATA_AT as usize, 0);
    payload.extend(data.iter().take(DATA_MAX));
    payload
}

/// The module in text format. It acks.
pub fn module() -> String {
    let (mut imports, mut branches) = (String::new(), String::new());
    for (number, (namespace, name, takes, gives)) in IMPORTS.iter().enumerate() {
        let params: Vec<&str> = takes.chars().map(wasm_type).collect();
        let results: Vec<&str> = gives.chars().map(wasm_type).collect();
        let (params, result) = (params.join(" "), results.join(" "));
        let _ = writeln!(
            imports,
            "(import \"{namespace}\" \"{name}\" (func $f{number} (param {params}) (result {result})))"
        );
        let (mut narrow, mut wide) = (0, 0);
        let mut arguments = String::new();
        for kind in takes.chars() {
            let (load, at) = match kind {
                'l' => {
                    wide += 1;
                    ("i64.load", 4 + 4 * NARROW + 8 * (wide - 1))
                }
                _ => {
                    narrow += 1;
                    ("i32.load", 4 + 4 * (narrow - 1))
                }
            };
            let _ = write!(arguments, "({load} offset={at} (local.get $at)) ");
        }
        let call = format!("(call $f{number} {arguments})");
        let call = if gives.is_empty() { call } else { format!("(drop {call})") };
        let _ = writeln!(
            branches,
            "(if (i32.eq (local.get $import) (i32.const {number})) (then {call}))"
        );
    }
    format!(
        r#"(module {imports}
  (memory (export "memory") 2)
  (func (export "handle") (param $len i32) (result i32)
    (local $at i32) (local $end i32) (local $import i32)
    (drop (call $f0 (i32.const 0) (i32.const 0) (local.get $len)))
    (local.set $at (i32.const 4))
    (local.set $end (i32.add (i32.const 4)
      (i32.mul (i32.load8_u (i32.const 0)) (i32.const {RECORD}))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $import (i32.load (local.get $at)))
        {branches}
        (local.set $at (i32.add (local.get $at) (i32.const {RECORD})))
        (br $next)))
    (i32.const 0)))"#
    )
}

fn wasm_type(letter: char) -> &'static str {
    match letter {
        'l' => "i64",
        'd' => "f64",
        _ => "i32",
    }
}
