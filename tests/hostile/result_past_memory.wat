;; expect: trap
;; Sets a result that starts in its memory and ends outside.
(module
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $result (i32.const 65535) (i32.const 2))))
