//! Directories that a topic grants: a WASI guest can read their content, nothing outside of them, and cannot
//! write.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use duebox_job::FailureClass;
use duebox_sandbox::{Grants, Handler, Instances, Level, Limits, LoadError};
use tempfile::TempDir;

use crate::support::{ACKS, TestRun, job, load_with, run, sandbox};

/// A file next to the granted directory.
const SECRET: &str = "not visible";

/// A directory that contains `secret.txt` and `granted`, which has `a.txt`, `sub/b.txt` and links.
fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let granted = root.path().join("granted");
    fs::create_dir_all(granted.join("sub")).unwrap();
    fs::write(root.path().join("secret.txt"), SECRET).unwrap();
    fs::write(granted.join("a.txt"), "the first").unwrap();
    fs::write(granted.join("sub/b.txt"), "the second").unwrap();
    symlink("sub/b.txt", granted.join("inside")).unwrap();
    symlink("../secret.txt", granted.join("outside")).unwrap();
    symlink(root.path().join("secret.txt"), granted.join("absolute")).unwrap();
    symlink("..", granted.join("up")).unwrap();
    symlink("loop", granted.join("loop")).unwrap();
    root
}

fn grants(root: &Path) -> Grants {
    let dirs = BTreeMap::from([("/data".to_owned(), root.join("granted"))]);
    Grants { dirs, ..Grants::default() }
}

fn granted(wat: &str, root: &Path) -> Handler {
    load_with(wat, Limits::default(), grants(root))
}

const IMPORTS: &str = r#"
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_set_size"
    (func $set_size (param i32 i64) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_set_times"
    (func $set_times (param i32 i64 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_allocate"
    (func $allocate (param i32 i64 i64) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory"
    (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory"
    (func $rmdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file"
    (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename"
    (func $rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link"
    (func $link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink"
    (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 512) "a.txt") (data (i32.const 528) "sub") (data (i32.const 544) "new")
  (func $open (param $at i32) (param $len i32) (param $oflags i32) (param $rights i64) (result i32)
    (call $path_open (i32.const 3) (i32.const 1) (local.get $at) (local.get $len)
      (local.get $oflags) (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 0)))"#;

/// Reads the file that the payload names, logs its content, and acks. On an error it returns the errno plus 10.
fn reader() -> String {
    format!(
        r#"(module {IMPORTS}
  (func (export "handle") (param $len i32) (result i32)
    (local $errno i32)
    (drop (call $payload_read (i32.const 1024) (i32.const 0) (local.get $len)))
    (local.set $errno (call $open (i32.const 1024) (local.get $len) (i32.const 0) (i64.const 2)))
    (if (local.get $errno) (then (return (i32.add (local.get $errno) (i32.const 10)))))
    (i32.store (i32.const 16) (i32.const 2048))
    (i32.store (i32.const 20) (i32.const 1024))
    (local.set $errno
      (call $fd_read (i32.load (i32.const 0)) (i32.const 16) (i32.const 1) (i32.const 24)))
    (if (local.get $errno) (then (return (i32.add (local.get $errno) (i32.const 10)))))
    (call $log (i32.const 2) (i32.const 2048) (i32.load (i32.const 24)))
    (i32.const 0)))"#
    )
}

async fn read(handler: &Handler, path: &str) -> TestRun {
    let mut reading = job();
    reading.payload = Bytes::from(path.to_owned());
    run(handler, reading).await
}

#[tokio::test]
async fn a_granted_directory_can_be_read_in_every_reuse_mode() {
    let root = tree();
    let modes = [(false, 1), (true, 1), (false, 100)];
    for (snapshot, jobs_each) in modes {
        let limits = Limits { instances: Instances { snapshot, jobs_each }, ..Limits::default() };
        let handler = load_with(&reader(), limits, grants(root.path()));
        for _ in 0..2 {
            for (path, text) in [
                ("a.txt", "the first"),
                ("sub/b.txt", "the second"),
                ("sub/../a.txt", "the first"),
                ("inside", "the second"),
                ("./a.txt", "the first"),
            ] {
                let ran = read(&handler, path).await;
                assert_eq!((ran.answer(), ran.texts()), (0, vec![text]), "{path}");
            }
        }
        fs::write(root.path().join("granted/a.txt"), "newer").unwrap();
        assert_eq!(read(&handler, "a.txt").await.texts(), ["newer"]);
        fs::write(root.path().join("granted/a.txt"), "the first").unwrap();
    }
}

#[tokio::test]
async fn no_path_leads_out() {
    let root = tree();
    let handler = granted(&reader(), root.path());
    let absolute = root.path().join("secret.txt");
    for path in [
        "outside",
        "absolute",
        "up/secret.txt",
        "../secret.txt",
        "sub/../../secret.txt",
        "..",
        "/etc/passwd",
        "/",
        "",
        "loop",
        "up/granted/../secret.txt",
        "a.txt/../../secret.txt",
        "\0",
        absolute.to_str().unwrap(),
    ] {
        let ran = read(&handler, path).await;
        assert!(ran.answer() > 10 && ran.lines.is_empty(), "{path:?}: {ran:?}");
    }
    let long = "sub/../".repeat(4_000);
    assert!(read(&handler, &long).await.answer() > 10);
}

#[tokio::test]
async fn nothing_can_be_written_created_or_removed() {
    let root = tree();
    let before = listing(root.path());
    let open = |at: u32, len: u32, oflags: u32, rights: u32| {
        format!(
            "(call $open (i32.const {at}) (i32.const {len}) (i32.const {oflags}) (i64.const {rights}))"
        )
    };
    let on_open = |call: &str| {
        format!(
            "(block (result i32)
               (if {open} (then (return (i32.const 0))))
               (i32.store (i32.const 16) (i32.const 512)) (i32.store (i32.const 20) (i32.const 5))
               {call})",
            open = open(512, 5, 0, 2)
        )
    };
    let fd = "(i32.load (i32.const 0))";
    for call in [
        // Rights: read is 2, write 64. Flags: create 1, directory 2, exclusive 4, truncate 8.
        open(512, 5, 0, 64),
        open(512, 5, 0, 66),
        open(544, 3, 1, 2),
        open(544, 3, 1, 66),
        open(544, 3, 5, 64),
        open(512, 5, 8, 2),
        open(512, 5, 8, 64),
        on_open(&format!("(call $fd_write {fd} (i32.const 16) (i32.const 1) (i32.const 24))")),
        on_open(&format!("(call $set_size {fd} (i64.const 0))")),
        on_open(&format!("(call $allocate {fd} (i64.const 0) (i64.const 4096))")),
        on_open(&format!("(call $set_times {fd} (i64.const 0) (i64.const 0) (i32.const 5))")),
        "(call $mkdir (i32.const 3) (i32.const 544) (i32.const 3))".to_owned(),
        "(call $rmdir (i32.const 3) (i32.const 528) (i32.const 3))".to_owned(),
        "(call $unlink (i32.const 3) (i32.const 512) (i32.const 5))".to_owned(),
        "(call $rename (i32.const 3) (i32.const 512) (i32.const 5) (i32.const 3) (i32.const 544) (i32.const 3))".to_owned(),
        "(call $link (i32.const 3) (i32.const 0) (i32.const 512) (i32.const 5) (i32.const 3) (i32.const 544) (i32.const 3))".to_owned(),
        "(call $symlink (i32.const 512) (i32.const 5) (i32.const 3) (i32.const 544) (i32.const 3))".to_owned(),
    ] {
        let wat = format!(
            r#"(module {IMPORTS} (func (export "handle") (param i32) (result i32)
                 (i32.add (i32.const 10) {call})))"#
        );
        let ran = run(&granted(&wat, root.path()), job()).await;
        assert!(ran.answer() > 10, "{call}: {:?}", ran.report.outcome);
        assert_eq!(listing(root.path()), before, "{call}");
    }
}

#[tokio::test]
async fn a_pipe_a_socket_or_a_device_is_not_opened_and_blocks_no_thread() {
    let root = tree();
    let granted_dir = root.path().join("granted");
    let made = Command::new("mkfifo").arg(granted_dir.join("pipe")).status().unwrap();
    assert!(made.success(), "mkfifo: {made}");
    let _socket = UnixListener::bind(granted_dir.join("socket")).unwrap();
    symlink("pipe", granted_dir.join("to-pipe")).unwrap();
    let handler = granted(&reader(), root.path());
    // Opening a pipe without a writer would block.
    for path in ["pipe", "to-pipe", "sub/../pipe", "socket"] {
        let ran = read(&handler, path).await;
        assert!(ran.answer() > 10 && ran.lines.is_empty(), "{path}: {ran:?}");
    }
    let devices = BTreeMap::from([("/dev".to_owned(), PathBuf::from("/dev"))]);
    let grants = Grants { dirs: devices, ..Grants::default() };
    let handler = load_with(&reader(), Limits::default(), grants);
    for path in ["null", "zero", "full"] {
        // EACCES is 2.
        assert_eq!(read(&handler, path).await.answer(), 12, "{path}");
    }
}

#[tokio::test]
async fn unknown_rights_and_flags_are_a_trap() {
    let root = tree();
    for arguments in [
        "(i32.const 1) (i32.const 512) (i32.const 5) (i32.const 0) (i64.const -1) (i64.const 0) (i32.const 0)",
        "(i32.const -1) (i32.const 512) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)",
        "(i32.const 1) (i32.const 512) (i32.const 5) (i32.const -1) (i64.const 2) (i64.const 0) (i32.const 0)",
        "(i32.const 1) (i32.const 512) (i32.const 5) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const -1)",
        // A path beyond the end of the memory, and one whose end overflows.
        "(i32.const 1) (i32.const 65535) (i32.const 2) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)",
        "(i32.const 1) (i32.const -1) (i32.const 2) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0)",
    ] {
        let wat = format!(
            r#"(module {IMPORTS} (func (export "handle") (param i32) (result i32)
                 (call $path_open (i32.const 3) {arguments} (i32.const 0))))"#
        );
        let ran = run(&granted(&wat, root.path()), job()).await;
        assert_eq!(ran.failure().class, FailureClass::Trap, "{arguments}: {ran:?}");
    }
}

/// Every file below a directory, with its content and modification time.
fn listing(root: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content =
                if meta.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let changed = meta.modified().unwrap();
            all.push((name, format!("{:?} {changed:?} {content}", meta.file_type())));
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn a_guest_that_opens_too_many_files_traps_and_leaves_none_open() {
    let root = tree();
    let wat = format!(
        r#"(module {IMPORTS} (func (export "handle") (param i32) (result i32)
             (loop $again
               (br_if $again
                 (i32.eqz (call $open (i32.const 512) (i32.const 5) (i32.const 0) (i64.const 2)))))
             (i32.const 7)))"#
    );
    let handler = granted(&wat, root.path());
    let inside = root.path().join("granted/a.txt").canonicalize().unwrap();
    let open_now = || {
        let links = fs::read_dir("/proc/self/fd").unwrap();
        links
            .filter_map(|link| fs::read_link(link.unwrap().path()).ok())
            .filter(|to| *to == inside)
            .count()
    };
    for _ in 0..3 {
        let ran = run(&handler, job()).await;
        assert_eq!(ran.failure().class, FailureClass::Trap, "{:?}", ran.report.outcome);
        assert_eq!(open_now(), 0);
    }
}

#[tokio::test]
async fn a_missing_directory_is_refused_at_load_and_absent_later() {
    let root = tree();
    let folder = root.path().join("granted");
    let handler = granted(&reader(), root.path());
    fs::rename(&folder, root.path().join("moved")).unwrap();
    let refused = |grants: Grants| {
        sandbox().load(ACKS.as_bytes(), Limits::default(), grants).map(drop).unwrap_err()
    };
    let error = refused(grants(root.path()));
    assert!(matches!(error, LoadError::Directory { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(folder.to_str().unwrap()) && text.contains("\"/data\""), "{text}");
    assert!(error.remedy().contains("correct `dirs`"), "{}", error.remedy());
    let ran = read(&handler, "a.txt").await;
    assert!(ran.answer() > 10);
    let [(Level::Warn, line)] = &ran.lines[..] else { panic!("{:?}", ran.lines) };
    assert!(line.starts_with("the directory /data cannot be opened: "), "{line}");
    // A file is not a directory.
    let dirs = BTreeMap::from([("/data".to_owned(), root.path().join("secret.txt"))]);
    assert!(matches!(refused(Grants { dirs, ..Grants::default() }), LoadError::Directory { .. }));
    let dirs = BTreeMap::from([(String::new(), root.path().to_owned())]);
    assert!(matches!(refused(Grants { dirs, ..Grants::default() }), LoadError::Directory { .. }));
}
