;; Pushes three follow-up jobs with its own payload: two of topic kid.one, one of kid.two. If the payload
;; starts with n, the first attempt is a nack after the pushes.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "topic: kid.one\n")
  (data (i32.const 1040) "topic: kid.two\n")

  (func $ask (param $head i32) (param $len i32)
    (if (call $push (local.get $head) (i32.const 15) (i32.const 2048) (local.get $len))
      (then (unreachable))))
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 2048) (i32.const 0) (local.get $len)))
    (call $ask (i32.const 1024) (local.get $len))
    (call $ask (i32.const 1024) (local.get $len))
    (call $ask (i32.const 1040) (local.get $len))
    (i32.and
      (i32.eq (i32.load8_u (i32.const 2048)) (i32.const 0x6e))
      (i64.eq (call $meta_int (i32.const 3)) (i64.const 1)))))
