;; expect: ack
;; Accepts, receives, sends and shuts down on every possible descriptor. None is a socket.
(module
  (import "wasi_snapshot_preview1" "sock_accept"
    (func $accept (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_recv"
    (func $recv (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_send"
    (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_shutdown" (func $shutdown (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $refused (param $errno i32) (if (i32.eqz (local.get $errno)) (then (unreachable))))
  (func (export "handle") (param i32) (result i32)
    (local $fd i32)
    (loop $next
      (call $refused (call $accept (local.get $fd) (i32.const 0) (i32.const 64)))
      (call $refused (call $recv (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 0)
        (i32.const 64) (i32.const 72)))
      (call $refused (call $send (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 0)
        (i32.const 64)))
      (call $refused (call $shutdown (local.get $fd) (i32.const 3)))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $fd) (i32.const 100))))
    (i32.const 0)))
