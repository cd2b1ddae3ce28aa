;; expect: trap
;; Uses a pointer and a length that add up to more than 32 bits.
(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $log (i32.const 2) (i32.const -8) (i32.const 16))
    (i32.const 0)))
