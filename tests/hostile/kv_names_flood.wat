;; expect: ack
;; Writes empty values under new names until it is refused, at 100,000 keys.
(module
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $answer i32)
    (i32.store (i32.const 0) (i32.const 0))
    (loop $again
      (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
      (local.set $answer (call $kv_set (i32.const 0) (i32.const 4) (i32.const 0) (i32.const 0)
        (i64.const 0) (i32.const 1)))
      (br_if $again (i32.eqz (local.get $answer))))
    (i32.or
      (i32.ne (local.get $answer) (i32.const -4))
      (i32.ne (i32.load (i32.const 0)) (i32.const 100001)))))
