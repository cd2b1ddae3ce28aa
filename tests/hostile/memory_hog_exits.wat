;; expect: out_of_memory
;; Exits instead of trapping when it is refused memory.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (drop (memory.grow (i32.const 60000)))
    (call $proc_exit (i32.const 2))
    (i32.const 0)))
