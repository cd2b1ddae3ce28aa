;; report.build: takes up to 4 MiB of memory, computes a little and waits for 0.3 to 2.3 seconds, as for a
;; slow service.
(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $count i32)
    (call $random (i32.const 0) (i32.const 8))
    (drop (memory.grow (i32.and (i32.load (i32.const 0)) (i32.const 63))))
    (local.set $count (i32.const 200000))
    (loop $again
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br_if $again (local.get $count)))
    ;; A subscription to the monotonic clock, in nanoseconds.
    (i32.store (i32.const 80) (i32.const 1))
    (i64.store (i32.const 88)
      (i64.add (i64.const 300000000)
        (i64.mul (i64.const 1000000) (i64.rem_u (i64.load32_u (i32.const 4)) (i64.const 2000)))))
    (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 192))))
