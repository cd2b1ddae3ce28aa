;; A crate that needs a browser.
(module
  (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
  (import "__wbindgen_placeholder__" "__wbg_getTime_7" (func (param i32) (result f64)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
