;; expect: timeout
;; Sends denied requests in an endless loop.
(module
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "GET http://other.test/\n")
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (drop (call $send (i32.const 0) (i32.const 23) (i32.const 0) (i32.const 65536) (i32.const 0)))
      (br $again))
    (i32.const 0)))
