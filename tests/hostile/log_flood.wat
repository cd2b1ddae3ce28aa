;; expect: ack
;; Logs a million lines. The host keeps those within the limit and counts the rest.
(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "the same line again and again")
  (func (export "handle") (param i32) (result i32)
    (local $count i32)
    (loop $again
      (call $log (i32.const 2) (i32.const 0) (i32.const 29))
      (local.set $count (i32.add (local.get $count) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $count) (i32.const 1000000))))
    (i32.const 0)))
