;; Acts on each letter of its payload:
;;   l  logs the payload          z  naps 20 ms
;;   n  nacks its first attempt   N  nacks every attempt
;;   s  snoozes                   r  keeps the payload as its result
;;   D  drops the job
;; Otherwise it acks. Other letters have no effect.
(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "by its payload")
  (global $payload i32 (i32.const 2048))

  (func $nap
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 20000000))
    (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128))))
  (func $nack (result i32)
    (call $reason (i32.const 1024) (i32.const 14))
    (i32.const 1))
  (func $first_attempt (result i32) (i64.eq (call $meta_int (i32.const 3)) (i64.const 1)))

  (func (export "handle") (param $len i32) (result i32)
    (local $at i32) (local $letter i32)
    (drop (call $read (global.get $payload) (i32.const 0) (local.get $len)))
    (block $end
      (loop $next
        (br_if $end (i32.ge_u (local.get $at) (local.get $len)))
        (local.set $letter
          (i32.load8_u (i32.add (global.get $payload) (local.get $at))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (if (i32.eq (local.get $letter) (i32.const 0x6c)) ;; l
          (then (call $log (i32.const 2) (global.get $payload) (local.get $len))))
        (if (i32.eq (local.get $letter) (i32.const 0x7a)) ;; z
          (then (call $nap)))
        (if (i32.eq (local.get $letter) (i32.const 0x72)) ;; r
          (then
            (if (call $result (global.get $payload) (local.get $len)) (then (unreachable)))))
        (if (i32.eq (local.get $letter) (i32.const 0x73)) ;; s
          (then (call $snooze (i64.const 1)) (return (call $nack))))
        (if (i32.eq (local.get $letter) (i32.const 0x44)) ;; D
          (then (return (i32.const 2))))
        (if (i32.eq (local.get $letter) (i32.const 0x4e)) ;; N
          (then (return (call $nack))))
        (if (i32.eq (local.get $letter) (i32.const 0x6e)) ;; n
          (then (if (call $first_attempt) (then (return (call $nack))))))
        (br $next)))
    (i32.const 0)))
