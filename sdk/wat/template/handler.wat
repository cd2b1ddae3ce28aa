;; The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.
;; Each import is described in https://github.com/duebox/duebox/blob/main/docs/reference/abi.md
(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))

  (memory (export "memory") 1)
  (data $greeting (i32.const 0) "greeting")
  (data $empty (i32.const 16) "the payload is empty: whom to greet?")
  (global $text i32 (i32.const 64)) ;; where the greeting is put together
  (global $word_max i32 (i32.const 64))
  (global $name_max i32 (i32.const 256))

  (func (export "handle") (param $length i32) (result i32)
    (local $end i32)
    ;; No retry can help, so the job is dead at once: a drop, with its reason.
    (if (i32.eqz (local.get $length))
      (then
        (call $reason (i32.const 16) (i32.const 36))
        (return (i32.const 2))))
    (local.set $end (call $word))
    (local.set $end (call $append (local.get $end) (i32.const 0x2c))) ;; ','
    (local.set $end (call $append (local.get $end) (i32.const 0x20))) ;; ' '
    ;; Copies at most 256 bytes of the payload, and returns how many.
    (local.set $end
      (i32.add
        (local.get $end)
        (call $payload_read (local.get $end) (i32.const 0) (global.get $name_max))))
    (call $log (i32.const 2) (global.get $text) (i32.sub (local.get $end) (global.get $text))) ;; 2: info
    ;; 0 for an ack: the job is done. A nack would be 1: failed, try again later.
    (call $result (global.get $text) (i32.sub (local.get $end) (global.get $text))))

  ;; Writes the value of `config.greeting`, or "Hi" if there is none or it is too long; returns where it ends.
  (func $word (result i32)
    (local $length i32)
    (local.set $length
      (call $config_read (i32.const 0) (i32.const 8) (global.get $text) (global.get $word_max)))
    ;; Unsigned: an error is negative, and so counts as too long.
    (if (i32.gt_u (local.get $length) (global.get $word_max))
      (then
        (i32.store16 (global.get $text) (i32.const 0x6948)) ;; "Hi"
        (local.set $length (i32.const 2))))
    (i32.add (global.get $text) (local.get $length)))

  (func $append (param $at i32) (param $letter i32) (result i32)
    (i32.store8 (local.get $at) (local.get $letter))
    (i32.add (local.get $at) (i32.const 1))))
