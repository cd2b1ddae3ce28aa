;; A library of Rust without crate-type = cdylib exports nothing.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (memory (export "memory") 1)
)
