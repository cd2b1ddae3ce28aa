;; expect: ack
;; Pushes 100 jobs, which are accepted, and one more, which is refused.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: granted.one\n")
  (func $one (result i32)
    (call $push (i32.const 0) (i32.const 19) (i32.const 0) (i32.const 1)))
  (func (export "handle") (param i32) (result i32)
    (local $i i32)
    (loop $next
      (if (i32.ne (call $one) (i32.const 0)) (then (unreachable)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $i) (i32.const 100))))
    (if (i32.ne (call $one) (i32.const -4)) (then (unreachable)))
    (i32.const 0)))
