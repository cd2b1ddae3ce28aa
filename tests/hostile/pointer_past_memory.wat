;; expect: trap
;; Makes the host write the payload across the end of its memory.
(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $payload_read (i32.const 65530) (i32.const 0) (i32.const 100))))
