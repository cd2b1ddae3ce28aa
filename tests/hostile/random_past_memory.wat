;; expect: trap
;; Asks for random bytes over all of its memory and one more.
(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $random (i32.const 0) (i32.const 65537))
    (i32.const 0)))
