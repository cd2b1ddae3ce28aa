;; A function of WASI preview 2.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (import "wasi:clocks/monotonic-clock@0.2.0" "now" (func (result i64)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
