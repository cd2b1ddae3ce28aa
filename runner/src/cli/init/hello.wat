;; The handler of the topic "hello", in the text format of WebAssembly: it logs a greeting with the job's payload
;; and keeps it as the job's result. A daemon that runs serves a change of this file within a second.
;;
;; To write handlers in Rust, Go or AssemblyScript: https://github.com/duebox/duebox/blob/main/sdk/README.md
(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))

  (memory (export "memory") 1)
  (data (i32.const 0) "Hello, ")
  (data (i32.const 8192) "whom to greet? the payload is empty")

  ;; Runs one job. The parameter is the length of its payload; the return value is the verdict.
  (func (export "handle") (param $length i32) (result i32)
    ;; Verdict 2, drop: no retry can help, so the job is dead at once, with this reason.
    (if (i32.eqz (local.get $length))
      (then
        (call $reason (i32.const 8192) (i32.const 35))
        (return (i32.const 2))))
    ;; Put the payload, or its first 4 KiB, after "Hello, ".
    (local.set $length (call $payload_read (i32.const 7) (i32.const 0) (i32.const 4096)))
    (local.set $length (i32.add (local.get $length) (i32.const 7)))
    ;; Level 2 is info.
    (call $log (i32.const 2) (i32.const 0) (local.get $length))
    (drop (call $result (i32.const 0) (local.get $length)))
    ;; Verdict 0, ack: the job is done. 1 would be nack: failed, try again later.
    (i32.const 0)))
