;; expect: trap
;; Reads a response, which does not exist, past its memory.
(module
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $read (i32.const 1) (i32.const 65535) (i32.const 0) (i32.const 2))))
