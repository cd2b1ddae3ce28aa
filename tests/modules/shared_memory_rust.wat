;; Rust built with atomics.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (memory (export "memory") 1 2 shared)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
