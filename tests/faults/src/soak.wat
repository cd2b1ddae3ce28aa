;; edition 0
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "edition 0")
  (func (export "handle") (param i32) (result i32)
    (local $word i32)
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1)))
    (local.set $word (i32.load8_u (i32.const 0)))
    (if (i32.eq (local.get $word) (i32.const 110)) (then (return (i32.const 1)))) ;; n
    (if (i32.eq (local.get $word) (i32.const 100)) (then (return (i32.const 2)))) ;; d
    (if (i32.eq (local.get $word) (i32.const 116)) (then (unreachable)))          ;; t
    (if (i32.eq (local.get $word) (i32.const 109))                                ;; m
      (then (loop $more
        (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))
        (unreachable))))
    (if (i32.eq (local.get $word) (i32.const 108)) (then (loop $on (br $on))))    ;; l
    (i32.const 0)))
