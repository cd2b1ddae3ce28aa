;; A function of C that is linked nowhere.
(module
  (@producers (language "C11" "") (processed-by "clang" "19.1.0"))
  (import "env" "printf" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
