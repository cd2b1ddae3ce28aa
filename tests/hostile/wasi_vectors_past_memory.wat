;; expect: ack
;; Writes 100 million pieces to stdout, whose list does not fit into its memory. It is refused.
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.eqz
      (call $fd_write (i32.const 1) (i32.const 0) (i32.const 100000000) (i32.const 16)))))
