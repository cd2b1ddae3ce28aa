;; Logs its payload and keeps it as the job's result.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param $length i32) (result i32)
    (drop (call $read (i32.const 1024) (i32.const 0) (local.get $length)))
    (call $log (i32.const 2) (i32.const 1024) (local.get $length))
    (drop (call $result (i32.const 1024) (local.get $length)))
    (i32.const 0)))
