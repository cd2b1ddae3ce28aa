;; expect: ack
;; Pushes jobs of 4 MiB plus one byte in total: the one that exceeds the limit is refused and uses no budget.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 65)
  (data (i32.const 0) "topic: granted.one\n")
  (func $one (param $len i32) (result i32)
    (call $push (i32.const 0) (i32.const 19) (i32.const 0) (local.get $len)))
  (func (export "handle") (param i32) (result i32)
    ;; 4194304 bytes: two heads of 19, bodies of 4194000 and 266.
    (if (i32.ne (call $one (i32.const 4194000)) (i32.const 0)) (then (unreachable)))
    (if (i32.ne (call $one (i32.const 267)) (i32.const -4)) (then (unreachable)))
    (call $one (i32.const 266))))
