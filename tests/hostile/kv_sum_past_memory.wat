;; expect: trap
;; Passes a sum buffer of which only seven of eight bytes are in its memory.
(module
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key")
  (func (export "handle") (param i32) (result i32)
    (call $kv_add (i32.const 0) (i32.const 3) (i64.const 1) (i32.const 65529))))
