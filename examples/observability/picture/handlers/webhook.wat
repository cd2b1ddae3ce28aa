;; webhook.deliver: the payload is the receiver's status. Acks 2xx and nacks all else.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "the receiver answered ...")
  (func (export "handle") (param i32) (result i32)
    (drop (call $read (i32.const 22) (i32.const 0) (i32.const 3)))
    (if (i32.eq (i32.load8_u (i32.const 22)) (i32.const 0x32)) (then (return (i32.const 0))))
    (call $reason (i32.const 0) (i32.const 25))
    (i32.const 1)))
