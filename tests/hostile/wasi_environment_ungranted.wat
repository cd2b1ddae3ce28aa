;; expect: ack
;; Reads arguments, environment and stdin. All are empty.
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get"
    (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.store (i32.const 0) (i32.const -1))
    (if (call $args (i32.const 0) (i32.const 4)) (then (unreachable)))
    (if (i32.load (i32.const 0)) (then (unreachable)))
    (i32.store (i32.const 0) (i32.const -1))
    (if (call $environ (i32.const 0) (i32.const 4)) (then (unreachable)))
    (if (i32.load (i32.const 0)) (then (unreachable)))
    (i32.store (i32.const 16) (i32.const 1024))
    (i32.store (i32.const 20) (i32.const 1024))
    (drop (call $fd_read (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 24)))
    (if (i32.load (i32.const 24)) (then (unreachable)))
    (i32.const 0)))
