;; An order was placed: pushes a mail for now and a reminder in two seconds. Both are pushed together with the
;; ack of this job, or not at all.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: mail\npriority: high\n")
  (data (i32.const 64) "topic: order.remind\ndelay-ms: 2000\n")

  ;; Requests a job with this head and the payload of this job.
  (func $ask (param $head i32) (param $length i32) (param $payload_length i32)
    (if (call $push (local.get $head) (local.get $length)
          (i32.const 1024) (local.get $payload_length))
      (then (unreachable))))

  (func (export "handle") (param $length i32) (result i32)
    (drop (call $read (i32.const 1024) (i32.const 0) (local.get $length)))
    (call $ask (i32.const 0) (i32.const 27) (local.get $length))
    (call $ask (i32.const 64) (i32.const 35) (local.get $length))
    (i32.const 0)))
