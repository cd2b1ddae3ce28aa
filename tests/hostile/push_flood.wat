;; expect: timeout
;; Pushes in an endless loop with a head of 16 KiB in which each line is a header and the last one is
;; malformed.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: granted.one\n")
  (func (export "handle") (param i32) (result i32)
    (local $at i32)
    ;; Lines `h.xxx:
    ;; ` of 8 bytes, each with a distinct name.
    (local.set $at (i32.const 19))
    (loop $next
      (i64.store (local.get $at) (i64.const 0x0a203a6161612e68))
      (i32.store8 offset=2 (local.get $at)
        (i32.add (i32.const 97) (i32.rem_u (local.get $at) (i32.const 26))))
      (i32.store8 offset=3 (local.get $at)
        (i32.add (i32.const 97)
          (i32.rem_u (i32.div_u (local.get $at) (i32.const 26)) (i32.const 26))))
      (i32.store8 offset=4 (local.get $at)
        (i32.add (i32.const 97)
          (i32.rem_u (i32.div_u (local.get $at) (i32.const 676)) (i32.const 26))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 16370))))
    (i32.store8 (i32.const 16383) (i32.const 120))
    (loop $again
      (drop (call $push (i32.const 0) (i32.const 16384) (i32.const 0) (i32.const 0)))
      (br $again))
    (i32.const 0)))
