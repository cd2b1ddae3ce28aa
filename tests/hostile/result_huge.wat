;; expect: ack
;; Sets a result one byte over 64 KiB, and one of all its memory. Both are refused.
(module
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1024)
  (func (export "handle") (param i32) (result i32)
    (if (i32.ne (call $result (i32.const 0) (i32.const 65537)) (i32.const -4))
      (then (unreachable)))
    (if (i32.ne (call $result (i32.const 0) (i32.const 67108864)) (i32.const -4))
      (then (unreachable)))
    (i32.const 0)))
