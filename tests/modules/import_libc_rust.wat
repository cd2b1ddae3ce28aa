;; A crate that was declared to be linked with a C library.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (import "env" "sqlite3_open" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
