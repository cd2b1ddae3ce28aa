;; expect: trap
;; Reads a value with a key that ends one byte past its memory.
(module
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $kv_get (i32.const 65530) (i32.const 7) (i32.const 0) (i32.const 0))))
