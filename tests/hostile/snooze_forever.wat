;; expect: snooze
;; Snoozes for the largest possible delay, which is limited to 365 days.
(module
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (func (export "handle") (param i32) (result i32)
    (call $snooze (i64.const 9223372036854775807))
    (i32.const 1)))
