;; expect: trap
;; Writes a value that ends one byte past its memory.
(module
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key")
  (func (export "handle") (param i32) (result i32)
    (call $kv_set (i32.const 0) (i32.const 3) (i32.const 1) (i32.const 65536) (i64.const 0)
      (i32.const 0))))
