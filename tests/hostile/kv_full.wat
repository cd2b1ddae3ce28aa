;; expect: ack
;; Writes values of maximum size until it is refused, at most 1,024 times, and checks that the first one is
;; still there.
(module
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "handle") (param i32) (result i32)
    (local $answer i32)
    (i32.store (i32.const 0) (i32.const 0))
    (loop $again
      (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
      (local.set $answer (call $kv_set (i32.const 0) (i32.const 4) (i32.const 8) (i32.const 65536)
        (i64.const 0) (i32.const 0)))
      (if (i32.gt_u (i32.load (i32.const 0)) (i32.const 1024)) (then (unreachable)))
      (br_if $again (i32.eqz (local.get $answer))))
    (if (i32.ne (local.get $answer) (i32.const -4)) (then (unreachable)))
    (i32.store (i32.const 0) (i32.const 1))
    (i32.ne (call $kv_get (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 0)) (i32.const 65536))))
