;; expect: timeout
;; Writes, reads, adds and deletes in an endless loop.
(module
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $kv_set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "kv_delete" (func $kv_delete (param i32 i32) (result i32)))
  (import "duebox_v1" "kv_add" (func $kv_add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 2)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (drop (call $kv_set (i32.const 0) (i32.const 256) (i32.const 0) (i32.const 65536) (i64.const 1)
        (i32.const 0)))
      (drop (call $kv_get (i32.const 0) (i32.const 256) (i32.const 0) (i32.const 65536)))
      (drop (call $kv_add (i32.const 1) (i32.const 8) (i64.const 9223372036854775807) (i32.const 65536)))
      (drop (call $kv_delete (i32.const 0) (i32.const 256)))
      (br $again))
    (i32.const 0)))
