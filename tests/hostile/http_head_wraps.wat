;; expect: trap
;; Sends a head whose end is before its start.
(module
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "GET http://silent.test/\n")
  (func (export "handle") (param i32) (result i32)
    (call $send (i32.const -8) (i32.const 24) (i32.const 0) (i32.const 0) (i32.const 0))))
