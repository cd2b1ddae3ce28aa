;; expect: ack
<<<<<<< HEAD
;; Passes every kind of invalid key, value, ttl and mode. Each returns its error code without a trap.
=======
;; Uses every kind of invalid key, value, ttl and mode. Each is refused with its code, and none traps.
>>>>>>> main
(module
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "kv_delete" (func $kv_delete (param i32 i32) (result i32)))
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 2)
  (func $is (param $answer i32) (param $code i32)
    (if (i32.ne (local.get $answer) (local.get $code)) (then (unreachable))))
  (func $set (param $key i32) (param $value i32) (param $ttl i64) (param $mode i32) (result i32)
    (call $kv_set (i32.const 0) (local.get $key) (i32.const 0) (local.get $value) (local.get $ttl)
      (local.get $mode)))
  (func (export "handle") (param i32) (result i32)
    (call $is (call $kv_get (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 0)) (i32.const -3))
    (call $is (call $kv_get (i32.const 0) (i32.const 131072) (i32.const 0) (i32.const 131072)) (i32.const -3))
    (call $is (call $kv_delete (i32.const 0) (i32.const 257)) (i32.const -3))
    (call $is (call $kv_add (i32.const 0) (i32.const 0) (i64.const 1) (i32.const 0)) (i32.const -3))
    (call $is (call $set (i32.const 1) (i32.const 65537) (i64.const 0) (i32.const 0)) (i32.const -4))
    (call $is (call $set (i32.const 1) (i32.const 131072) (i64.const 0) (i32.const 0)) (i32.const -4))
    (call $is (call $set (i32.const 1) (i32.const 1) (i64.const -9223372036854775808) (i32.const 0)) (i32.const -3))
    (call $is (call $set (i32.const 1) (i32.const 1) (i64.const 9223372036854775807) (i32.const 0)) (i32.const -3))
    (call $is (call $set (i32.const 1) (i32.const 1) (i64.const 0) (i32.const -1)) (i32.const -3))
    (call $is (call $set (i32.const 1) (i32.const 1) (i64.const 0) (i32.const 2)) (i32.const -7))
    (call $is (call $kv_get (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0)) (i32.const -1))
    (i32.const 0)))
