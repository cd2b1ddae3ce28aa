;; A library of Rust without the SDK's macro.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (memory (export "memory") 1)
  (func (export "process") (param i32) (result i32) (i32.const 0))
)
