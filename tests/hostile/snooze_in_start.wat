;; expect: trap
;; Snoozes in its start function, where there is no job.
(module
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (start $early)
  (func $early (call $snooze (i64.const 1000)))
  (func (export "handle") (param i32) (result i32) (i32.const 1)))
