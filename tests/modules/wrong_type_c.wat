;; A handler of C with a pointer and a length, and no alloc.
(module
  (@producers (language "C11" "") (processed-by "clang" "19.1.0"))
  (memory (export "memory") 1)
  (func (export "handle") (param i32 i32) (result i32) (i32.const 0))
)
