;; The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
;; names one, and keeps it as the job's result.
;; Each import is described in https://github.com/duebox/duebox/blob/main/docs/reference/abi.md
(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $http_send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))

  (memory (export "memory") 1)
  (data $greeting (i32.const 0) "greeting")
  (data $empty (i32.const 16) "the payload is empty: whom to greet?")
  (data $api (i32.const 640) "api")
  (data $refused (i32.const 656) "the API did not take the greeting")
  (data $post (i32.const 704) "POST ") ;; the head of a request: the URL and a line feed follow
  (global $url i32 (i32.const 709))
  (global $url_max i32 (i32.const 256))
  (global $text i32 (i32.const 64)) ;; where the greeting is put together
  (global $word_max i32 (i32.const 64))
  (global $name_max i32 (i32.const 256))

  (func (export "handle") (param $length i32) (result i32)
    (local $end i32)
    (local $verdict i32)
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
    (local.set $verdict (call $send (i32.sub (local.get $end) (global.get $text))))
    (if (local.get $verdict) (then (return (local.get $verdict))))
    (call $log (i32.const 2) (global.get $text) (i32.sub (local.get $end) (global.get $text))) ;; 2: info
    ;; 0 for an ack: the job is done.
    (call $result (global.get $text) (i32.sub (local.get $end) (global.get $text))))

  ;; Sends the greeting, of this length, to the URL in `config.api`, if there is one. Returns the verdict: 0 ack, 1 nack,
  ;; 2 drop.
  (func $send (param $length i32) (result i32)
    (local $status i32)
    (local.set $status
      (call $config_read (i32.const 640) (i32.const 3) (global.get $url) (global.get $url_max)))
    ;; Unsigned: an error is negative, and so counts as too long.
    (if (i32.gt_u (local.get $status) (global.get $url_max)) (then (return (i32.const 0))))
    (drop (call $append (i32.add (global.get $url) (local.get $status)) (i32.const 0x0a))) ;; a line feed
    (local.set $status
      (call $http_send
        (i32.const 704) (i32.add (local.get $status) (i32.const 6)) ;; the head
        (global.get $text) (local.get $length)                      ;; the body
        (i32.const 0)))                                             ;; the timeout: what the job has left
    (if (i32.eq (i32.div_s (local.get $status) (i32.const 100)) (i32.const 2)) (then (return (i32.const 0)))) ;; 2xx
    (call $reason (i32.const 656) (i32.const 33))
    ;; Refused: 4xx, but not 429. No retry can help.
    (if
      (i32.and
        (i32.eq (i32.div_s (local.get $status) (i32.const 100)) (i32.const 4))
        (i32.ne (local.get $status) (i32.const 429)))
      (then (return (i32.const 2))))
    ;; Busy, or not reached: tried again in a minute.
    (call $retry_after (i64.const 60000))
    (i32.const 1))

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
