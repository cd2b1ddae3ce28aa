;; C built for wasm64.
(module
  (@producers (language "C11" "") (processed-by "clang" "19.1.0"))
  (memory (export "memory") i64 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
