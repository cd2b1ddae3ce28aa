;; expect: trap
;; granted: dirs
;; Opens a file of its directory in a loop; each open is a file descriptor of the daemon.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "a.txt")
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (br_if $again (i32.eqz (call $open (i32.const 3) (i32.const 1) (i32.const 64) (i32.const 5)
        (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))))
    (i32.const 0)))
