;; expect: exit
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (func (export "_initialize") (call $proc_exit (i32.const 1)))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
