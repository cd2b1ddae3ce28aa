;; expect: trap
;; Sets a reason of 4 GiB, of which 4 KiB would be kept.
(module
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $reason (i32.const 0) (i32.const -1))
    (i32.const 1)))
