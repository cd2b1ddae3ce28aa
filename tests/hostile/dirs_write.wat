;; expect: ack
;; granted: dirs
;; Tries to write, create and remove in a directory that it may only read: /granted, which contains a.txt.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory"
    (func $mkdir (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename"
    (func $rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink"
    (func $symlink (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "a.txt") (data (i32.const 96) "new")
  (func $refused (param $errno i32) (if (i32.eqz (local.get $errno)) (then (unreachable))))
  (func $opens (param $at i32) (param $len i32) (param $oflags i32) (param $rights i64) (result i32)
    (call $open (i32.const 3) (i32.const 1) (local.get $at) (local.get $len) (local.get $oflags)
      (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 0)))
  (func (export "handle") (param i32) (result i32)
    (if (call $opens (i32.const 64) (i32.const 5) (i32.const 0) (i64.const 2)) (then (unreachable)))
    (call $refused (call $opens (i32.const 64) (i32.const 5) (i32.const 0) (i64.const 64)))
    (call $refused (call $opens (i32.const 64) (i32.const 5) (i32.const 8) (i64.const 2)))
    (call $refused (call $opens (i32.const 96) (i32.const 3) (i32.const 1) (i64.const 64)))
    (call $refused (call $mkdir (i32.const 3) (i32.const 96) (i32.const 3)))
    (call $refused (call $unlink (i32.const 3) (i32.const 64) (i32.const 5)))
    (call $refused (call $rename (i32.const 3) (i32.const 64) (i32.const 5) (i32.const 3) (i32.const 96) (i32.const 3)))
    (call $refused (call $symlink (i32.const 64) (i32.const 5) (i32.const 3) (i32.const 96) (i32.const 3)))
    (i32.const 0)))
