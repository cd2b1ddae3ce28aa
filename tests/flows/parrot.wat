;; Logs its payload, gives it as the reason, and fails for good.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 2048) (i32.const 0) (local.get $len)))
    (call $log (i32.const 2) (i32.const 2048) (local.get $len))
    (call $reason (i32.const 2048) (local.get $len))
    (i32.const 2)))
