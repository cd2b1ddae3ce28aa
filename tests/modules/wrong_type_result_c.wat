;; A handler of C that returns nothing.
(module
  (@producers (language "C11" "") (processed-by "clang" "19.1.0"))
  (memory (export "memory") 1)
  (func (export "handle") (param i32))
)
