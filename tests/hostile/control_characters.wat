;; expect: ack
;; Tries to forge log lines and to control the terminal.
(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "a\nERROR forged\r\1b[2J\07\c2\9b31m\00end")
  (func (export "handle") (param i32) (result i32)
    (call $log (i32.const 2) (i32.const 0) (i32.const 33))
    (i32.const 0)))
