;; expect: snooze
;; Snoozes for a negative delay, which is raised to zero.
(module
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (func (export "handle") (param i32) (result i32)
    (call $snooze (i64.const -9223372036854775808))
    (i32.const 1)))
