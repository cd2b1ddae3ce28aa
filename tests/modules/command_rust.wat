;; A program of Rust.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (memory (export "memory") 1)
  (func (export "_start"))
)
