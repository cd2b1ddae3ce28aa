;; expect: timeout
;; Calls the same silent server in a loop with short timeouts.
(module
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "GET http://silent.test/\n")
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (drop (call $send (i32.const 0) (i32.const 24) (i32.const 0) (i32.const 0) (i32.const 1)))
      (br $again))
    (i32.const 0)))
