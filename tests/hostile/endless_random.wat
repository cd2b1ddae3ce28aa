;; expect: timeout
;; Makes the host fill 32 MiB with random bytes in a loop.
(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (memory (export "memory") 512)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (call $random (i32.const 0) (i32.const 33554432))
      (br $again))
    (i32.const 0)))
