;; A function of another host.
(module
  (import "extism:host/env" "input_length" (func (result i64)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
