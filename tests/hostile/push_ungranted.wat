;; expect: ack
;; Pushes to topics that are not granted: names similar to the grant, and no name.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: order.close\n")
  (data (i32.const 32) "topic: granted\n")
  (data (i32.const 64) "topic: *\n")
  (data (i32.const 96) "topic: granted.{x}\n")
  (func $refused (param $head i32) (param $len i32) (param $code i32)
    (if (i32.ne
          (call $push (local.get $head) (local.get $len) (i32.const 0) (i32.const 0))
          (local.get $code))
      (then (unreachable))))
  (func (export "handle") (param i32) (result i32)
    (call $refused (i32.const 0) (i32.const 19) (i32.const -2))
    (call $refused (i32.const 32) (i32.const 15) (i32.const -2))
    (call $refused (i32.const 64) (i32.const 9) (i32.const -3))
    (call $refused (i32.const 96) (i32.const 19) (i32.const -3))
    (i32.const 0)))
