;; A handler of Rust with 64-bit numbers.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (memory (export "memory") 1)
  (func (export "handle") (param i64) (result i64) (i64.const 0))
)
