;; expect: trap
;; Makes the host write the job's id across the end of its memory.
(module
  (import "duebox_v1" "meta_read" (func $meta_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $meta_read (i32.const 1) (i32.const 65535) (i32.const 100))))
