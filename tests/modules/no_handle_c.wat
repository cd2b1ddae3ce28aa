;; A module of C that exports its handler under another name.
(module
  (@producers (language "C11" "") (processed-by "clang" "19.1.0"))
  (memory (export "memory") 1)
  (func (export "handler") (param i32) (result i32) (i32.const 0))
)
