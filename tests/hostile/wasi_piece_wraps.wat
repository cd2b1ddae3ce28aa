;; expect: ack
;; Writes a piece to stdout that starts in its memory and ends 4 GiB later. It is refused.
(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.store (i32.const 0) (i32.const 64))
    (i32.store (i32.const 4) (i32.const -64))
    (i32.eqz (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))
