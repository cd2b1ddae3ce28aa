;; expect: exit
;; Exits with a code that WASI does not allow.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $proc_exit (i32.const -1))
    (i32.const 0)))
