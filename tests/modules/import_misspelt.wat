;; A function of the ABI with another name.
(module
  (import "duebox_v1" "kv_put" (func (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
