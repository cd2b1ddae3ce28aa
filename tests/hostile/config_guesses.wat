;; expect: ack
;; Reads configuration values and secrets of other topics, and environment variables, by guessed names. None
;; exists.
(module
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "api_key") (data (i32.const 16) "token") (data (i32.const 32) "PATH")
  (data (i32.const 48) "HOME") (data (i32.const 64) "REDIS_URL") (data (i32.const 80) "../token")
  (func $none (param $at i32) (param $len i32)
    (if (i32.ne (i32.const -1)
          (call $config_read (local.get $at) (local.get $len) (i32.const 1024) (i32.const 1024)))
      (then (unreachable))))
  (func (export "handle") (param i32) (result i32)
    (call $none (i32.const 0) (i32.const 7))
    (call $none (i32.const 16) (i32.const 5))
    (call $none (i32.const 32) (i32.const 4))
    (call $none (i32.const 48) (i32.const 4))
    (call $none (i32.const 64) (i32.const 9))
    (call $none (i32.const 80) (i32.const 8))
    (call $none (i32.const 0) (i32.const 0))
    (i32.const 0)))
