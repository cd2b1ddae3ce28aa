;; A handler that is an imported function.
(module
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (memory (export "memory") 1)
  (export "handle" (func $meta))
)
