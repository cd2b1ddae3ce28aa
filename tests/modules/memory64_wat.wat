;; A memory with 64-bit addresses.
(module
  (memory (export "memory") i64 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
