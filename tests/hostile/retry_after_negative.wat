;; expect: nack
;; Asks for a negative delay, and then for the largest possible one.
(module
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (func (export "handle") (param i32) (result i32)
    (call $retry_after (i64.const -9223372036854775808))
    (call $retry_after (i64.const 9223372036854775807))
    (i32.const 1)))
