;; expect: timeout
;; Sets its result in an endless loop.
(module
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (drop (call $result (i32.const 0) (i32.const 65536)))
      (br $again))
    (i32.const 0)))
