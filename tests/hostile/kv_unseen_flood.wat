;; expect: ack
;; Reads more keys than the host remembers: conditional writes succeed only for the first thousand.
(module
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $write (param $key i32) (result i32)
    (i32.store (i32.const 0) (local.get $key))
    (call $kv_set (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 1) (i64.const 0) (i32.const 2)))
  (func (export "handle") (param i32) (result i32)
    (i32.store (i32.const 0) (i32.const 0))
    (loop $again
      (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
      (drop (call $kv_get (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 0)))
      (br_if $again (i32.lt_u (i32.load (i32.const 0)) (i32.const 50000))))
    (if (call $write (i32.const 1000)) (then (unreachable)))
    (i32.ne (call $write (i32.const 1001)) (i32.const -7))))
