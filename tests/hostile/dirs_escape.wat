;; expect: ack
;; granted: dirs
;; Tries to leave a directory that it may read: with dots, with absolute paths, and with the link `out` in it.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "..") (data (i32.const 80) "/") (data (i32.const 96) "out")
  (data (i32.const 112) "out/hostile") (data (i32.const 128) "../../../../../../etc/passwd")
  (data (i32.const 160) "/etc/passwd") (data (i32.const 192) "a.txt/../..") (data (i32.const 224) "./..")
  (func $refused (param $at i32) (param $len i32)
    (if (i32.eqz (call $open (i32.const 3) (i32.const 1) (local.get $at) (local.get $len) (i32.const 0)
          (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))
      (then (unreachable))))
  (func (export "handle") (param i32) (result i32)
    (call $refused (i32.const 64) (i32.const 2))
    (call $refused (i32.const 80) (i32.const 1))
    (call $refused (i32.const 96) (i32.const 3))
    (call $refused (i32.const 112) (i32.const 11))
    (call $refused (i32.const 128) (i32.const 28))
    (call $refused (i32.const 160) (i32.const 11))
    (call $refused (i32.const 192) (i32.const 11))
    (call $refused (i32.const 224) (i32.const 4))
    (call $refused (i32.const 0) (i32.const 0))
    (i32.const 0)))
