;; expect: ack
;; Looks for directories behind every descriptor and opens paths below them. There are none.
(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir"
    (func $readdir (param i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "/etc/passwd") (data (i32.const 96) "../../../../../../etc/passwd")
  (func $opens (param $fd i32) (param $at i32) (param $len i32) (result i32)
    (i32.eqz (call $open (local.get $fd) (i32.const 1) (local.get $at) (local.get $len)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0))))
  (func (export "handle") (param i32) (result i32)
    (local $fd i32)
    (local.set $fd (i32.const -3))
    (loop $next
      (if (i32.eqz (call $prestat (local.get $fd) (i32.const 0))) (then (unreachable)))
      (if (call $opens (local.get $fd) (i32.const 64) (i32.const 11)) (then (unreachable)))
      (if (call $opens (local.get $fd) (i32.const 96) (i32.const 28)) (then (unreachable)))
      (if (i32.eqz (call $readdir (local.get $fd) (i32.const 1024) (i32.const 1024) (i64.const 0) (i32.const 0)))
        (then (unreachable)))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $fd) (i32.const 300))))
    (i32.const 0)))
