;; expect: trap
;; Uses the store in _initialize, where there is no job.
(module
  (import "duebox_v1" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_initialize")
    (drop (call $kv_get (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 0))))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
